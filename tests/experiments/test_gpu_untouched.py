"""Planning looks for a GPU and does not take it: a context of ours would keep the worker off an exclusive one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from stepscope.errors import UsageError
from stepscope.experiments import resolve as module
from stepscope.experiments.plan import make_plan

TREE = {"workload": {"regime": "steady"}, "measure": {"steps": 4}}


@pytest.fixture(autouse=True)
def _unasked() -> Iterator[None]:
    module._check_device.cache_clear()
    yield
    module._check_device.cache_clear()


def taken(*_: object, **__: object) -> None:
    raise AssertionError("a context was made")


@pytest.mark.parametrize("device", ["cuda", "auto"])
def test_a_plan_for_a_gpu_makes_no_context_on_it(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name in ("_lazy_init", "init", "current_device", "get_device_name"):
        monkeypatch.setattr(torch.cuda, name, taken)
    (point,) = make_plan([("mine.yaml", {**TREE, "device": device})], {}).points
    assert point.spec.device == "cuda"


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="device 'cuda' needs an NVIDIA GPU and a CUDA build of torch"):
        make_plan([("mine.yaml", {**TREE, "device": "cuda"})], {})
