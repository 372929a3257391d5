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


def test_long_prompts_are_computed_by_less(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN 32 rows of 8192 tokens: 36 s of arithmetic for `tiny`
    monkeypatch.setattr(resolving, "_check_device", lambda *_: None)
    fixed = {"num_requests": 32, "prompt": {"kind": "fixed", "value": 8192}, "output": {"kind": "fixed", "value": 1}}

    def model(device: str, **runner: int) -> str:
        return resolve({"workload": {"generator": fixed}, "device": device, "runner": runner}).runner.model

    # THEN a device that goes by costs takes the one that looks back at little, and one that measures takes all
    assert model("sim") == "micro-256"
    assert model("cpu") == "micro"
    # AND ranks, which that one cannot be cut for, take all
    assert model("sim", dcp=2) == "micro"
