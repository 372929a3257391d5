"""Tasks of points that differ in their seeds, and the point runners of the benchmarks within reach of workers."""

import functools
import os
import sys
from pathlib import Path

import pytest
from stepscope.experiments.launches import tasks
from stepscope.experiments.plan import make_plan

RUNNERS = Path(__file__).parents[3] / "benchmarks"


@functools.cache
def _points(count):
    tree = {
        "workload": {"regime": "steady", "settings": {"num_reqs": 2, "steps": 4}}, "device": "sim",
        "runner": {"max_model_len": 256, "num_blocks": 64, "model": "micro"}, "measure": {"steps": 2},
        "grid": {"seed": list(range(count))},
    }  # fmt: skip
    return make_plan([("t", tree)], {})


@pytest.fixture
def plan_of():
    """`plan_of(n)`: n points of one key."""
    return _points


@pytest.fixture
def tasks_of():
    """`tasks_of(n)`: a task for each of n points."""
    return lambda count: tasks(_points(count).points)


@pytest.fixture
def point_runners(monkeypatch):
    """Workers started now can be given `point_runners:no_op` and its siblings."""
    path = os.pathsep.join([str(RUNNERS), *(entry for entry in sys.path if entry)])
    monkeypatch.setenv("PYTHONPATH", path)
