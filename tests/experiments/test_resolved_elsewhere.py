"""Points for other machines: this one need not have their device, and decides nothing about it."""

import pytest
from stepscope.errors import UsageError
from stepscope.experiments import resolve as module
from stepscope.experiments.plan import make_plan

TREE = {"workload": {"regime": "steady"}, "measure": {"steps": 4}}


def plan(elsewhere, **fields):
    return make_plan([("spec", {**TREE, **fields})], {}, elsewhere=elsewhere)


def test_a_gpu_is_not_asked_for_where_the_points_do_not_run(monkeypatch):
    def refuse(device, calibration, cost_model):
        raise UsageError(f"device: {device} is not there")

    monkeypatch.setattr(module, "_check_device", refuse)
    (point,) = plan(True, device="cuda").points
    assert point.spec.device == "cuda"
    assert point.spec.runner.model == point.spec.cost_model  # what a GPU runs, as if it had been planned there
    with pytest.raises(UsageError, match="cuda is not there"):
        plan(False, device="cuda")


def test_auto_is_nothing_that_this_machine_can_decide():
    with pytest.raises(UsageError, match=r"spec: device: auto is decided by the machine at hand.*--device cuda"):
        plan(True, device="auto")


def test_what_can_be_checked_is_checked():
    with pytest.raises(UsageError, match="no-such-shape"):
        plan(True, device="sim", cost_model="no-such-shape")
