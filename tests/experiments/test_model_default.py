"""Which model makes the tokens where the spec names none."""

import pytest
from stepscope.experiments import resolve as resolving
from stepscope.experiments.resolve import resolve

POINT = {"workload": {"regime": "steady", "settings": {"num_reqs": 4}}, "measure": {"steps": 4}}


def resolved(device, monkeypatch, **runner):
    monkeypatch.setattr(resolving, "_check_device", lambda *_: None)
    return resolve({**POINT, "device": device, "runner": runner}).runner.model


def test_a_gpu_runs_the_shape_that_sim_models(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolved("cuda", monkeypatch) == "llama-1b"
    assert resolved("sim", monkeypatch) == "tiny"


def test_a_named_model_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolved("cuda", monkeypatch, model="tiny") == "tiny"
