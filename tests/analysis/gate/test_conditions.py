"""Which blocks are dropped for what the machine did, and what Linux says of it."""

from __future__ import annotations

from dataclasses import fields

import pytest
from stepscope.analysis.gate.conditions import Conditions, spoiled_by, told
from stepscope.instrumentation.machine_load import LoadReading, change, read_load

QUIET = Conditions(0, 1980.0, 40.0, 0, 0.0, 0.1, 3000.0, 1.0, 0, 2)


@pytest.mark.parametrize(("changed", "reason"), [
    ({"throttle": 0x4}, "device throttled"), ({"throttle": 0x1 | 0x40}, "device throttled"), ({"throttle": 0x1}, None),
    ({"foreign": 1}, "another process on the device"), ({"sm_mhz": 1700.0}, "device clock changed"),
    ({"sm_mhz": 1900.0}, None), ({"steal_share": 0.2}, "processor taken away (steal)"), ({"steal_share": 0.05}, None),
    ({"wait_share": 0.95}, "no free core"), ({"wait_share": 0.5}, "cores free for one block only"),
    ({"wait_share": 0.3}, None), ({"cpu_mhz": 2500.0}, "processor clock changed"), ({"load": 50.0}, None),
    ({"migrations": 9, "involuntary": 900}, None),
])  # fmt: skip
def test_either_arm_spoils_the_pair(changed, reason):
    values = {field.name: getattr(QUIET, field.name) for field in fields(QUIET)}
    other = Conditions(**{**values, **changed})
    assert spoiled_by(QUIET, other) == spoiled_by(other, QUIET) == reason


def test_a_machine_that_says_nothing_drops_nothing():
    assert spoiled_by(Conditions(), Conditions()) is None
    assert told([Conditions()], [None]) == ("telemetry dropped 0 of 1 pairs, both arms each",)


def test_an_evenly_busy_machine_is_for_the_statistics():
    busy = Conditions(wait_share=0.7, load=12.0)
    assert spoiled_by(busy, busy) is None


def test_what_was_dropped_is_counted_and_said():
    (said,) = told([QUIET, Conditions(load=3.0)], ["device throttled", None, "device throttled", "no free core"])
    assert said.startswith("telemetry dropped 3 of 4 pairs, both arms each, 2 device throttled, 1 no free core; load")
    assert "load 1.0 to 3.0" in said


def test_counters_of_linux(tmp_path):
    # GIVEN a /proc as Linux writes it
    (tmp_path / "7").mkdir()
    (tmp_path / "stat").write_text("cpu  100 0 50 800 0 0 0 50 9 9\ncpu0 1\n")
    (tmp_path / "loadavg").write_text("3.93 2.58 2.16 3/119 32395\n")
    (tmp_path / "cpuinfo").write_text("processor : 0\ncpu MHz\t\t: 2000.0\ncpu MHz\t\t: 3000.0\n")
    (tmp_path / "7" / "schedstat").write_text("5000 3000 4\n")
    (tmp_path / "7" / "sched").write_text("python (7, #threads: 1)\nse.nr_migrations   :   12\n")
    (tmp_path / "7" / "status").write_text("Name: x\nnonvoluntary_ctxt_switches:\t5\n")
    found = read_load(7, tmp_path, tmp_path)
    assert (found.steal_ticks, found.all_ticks, found.waited_ns) == (50, 1000, 3000)
    assert (found.migrations, found.involuntary, found.cpu_mhz, found.load) == (12, 5, 2500.0, 3.93)
    # THEN differences are shares of what lies between
    later = LoadReading(found.time_ns + 1000, 60, 1100, 3400, 15, 9, 2600.0, 4.0)
    between = change(found, later)
    assert (between.steal_share, between.wait_share, between.migrations, between.involuntary) == (0.1, 0.4, 3, 4)


def test_another_system_says_nothing(tmp_path):
    found = read_load(7, tmp_path / "no", tmp_path)
    assert {getattr(found, field.name) for field in fields(found) if field.name != "time_ns"} == {None}
    assert set(vars_of(change(found, found))) == {None}


def vars_of(between):
    return [getattr(between, field.name) for field in fields(between)]


def test_the_governor_comes_before_cpuinfo(tmp_path):
    core = tmp_path / "devices/system/cpu/cpu0/cpufreq"
    core.mkdir(parents=True)
    (core / "scaling_cur_freq").write_text("1800000\n")
    assert read_load(7, tmp_path, tmp_path).cpu_mhz == 1800.0
