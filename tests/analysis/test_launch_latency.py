"""The usual launch latency of a group of operations: what the host started says it, exceptions do not."""

import numpy as np
import pandas as pd
from stepscope.analysis.costs import launch_latencies

NOTHING = pd.DataFrame()


def usual(delays, started, calibration=NOTHING, others=()):
    groups = ["graph"] * len(delays) + ["copy"] * len(others)
    found = launch_latencies(
        calibration, groups, np.array([*delays, *others]), np.array([*started, *(True for _ in others)])
    )
    return found["graph"]


def test_operations_that_the_host_started_show_it():
    assert usual([7, 900, 5, 6], [True, False, True, True]) == 6


def test_few_exceptions_do_not_speak_for_a_group_that_waits_in_its_queue():
    # GIVEN graphs that wait behind the one before for 900, and one eager forward whose call outlasted its start
    delays, started = [900] * 19 + [-11_000_000], [False] * 19 + [True]
    assert usual(delays, started, others=(5, 5, 6)) == 5
    calibration = pd.DataFrame({"name": ["launch_latency_ns"], "key": ["graph"], "value": [8.0]})
    assert usual(delays, started, calibration) == 8


def test_it_is_never_more_than_the_small_delays_of_the_group():
    # one call in twenty was held up behind its hand-over: it says nothing
    delays = [-145_000] + [3] * 9 + [900] * 10
    assert usual(delays, [False] * 20, others=(5,)) == 3
    assert usual([2, 900, 900], [False] * 3, others=(5,)) == 2
