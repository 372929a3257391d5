"""Which attention backend a switch gives on which device."""

from types import SimpleNamespace

import pytest
import torch
from stepscope.errors import UsageError
from stepscope.runner.attention.factory import make_attention
from stepscope.runner.attention.masks import StepMasks
from stepscope.runner.attention.sharded import ShardedAttention
from stepscope.runner.attention.torch_backend import TorchAttention
from stepscope.runner.shards import Shards

CPU, GPU = (SimpleNamespace(tensor_device=torch.device(kind)) for kind in ("cpu", "cuda"))


@pytest.mark.parametrize(
    ("switch", "device", "graph_mode", "name"),
    [
        ("auto", CPU, "full", "torch"),
        ("auto", GPU, "full", "triton"),
        ("torch", CPU, "full", "torch"),
        ("torch", GPU, "none", "torch"),
        ("torch", GPU, "piecewise", "torch"),
        ("triton", GPU, "full_and_piecewise", "triton"),
    ],
)
def test_backend_by_switch_and_device(switch, device, graph_mode, name):
    if name == "triton":
        pytest.importorskip("triton")
    assert make_attention(switch, device, graph_mode).name == name


@pytest.mark.parametrize("switch", ["auto", "torch"])
def test_masks_are_for_the_backend_that_takes_them(switch):
    backend = make_attention(switch, GPU, masks=StepMasks(None, None))
    assert (type(backend).__name__, backend.name) == ("MaskedAttention", "torch")


def test_triton_without_a_gpu_is_refused_unless_it_is_interpreted(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(UsageError, match=r"attention: triton needs a GPU; .* set TRITON_INTERPRET=1"):
        make_attention("triton", CPU)
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert make_attention("triton", CPU).name == "triton"


@pytest.mark.parametrize("graph_mode", ["full", "full_decode_only", "full_and_piecewise"])
def test_no_full_graph_holds_a_backend_that_synchronises(graph_mode):
    message = f"attention: torch waits for the GPU .* graph_mode {graph_mode} cannot capture; use attention=triton"
    with pytest.raises(UsageError, match=message):
        make_attention("torch", GPU, graph_mode)


def test_a_model_that_looks_back_at_little_stands_in_on_modelled_devices_only():
    assert make_attention("auto", CPU, reach=256).name == "torch"
    with pytest.raises(UsageError, match="looks back at 256 positions stands in on a modelled device"):
        make_attention("auto", GPU, reach=256)


def test_ranks_take_the_backend_that_merges_them():
    for device in (CPU, GPU):
        made = make_attention("auto", device, "piecewise", shards=Shards(2))
        assert (type(made), made.name) == (ShardedAttention, "torch")
    assert type(make_attention("torch", CPU, "full", shards=Shards(2))) is ShardedAttention
    assert type(make_attention("torch", CPU, shards=Shards())) is TorchAttention
    with pytest.raises(UsageError, match=r"graph_mode full cannot capture; use dcp=1, or graph_mode=piecewise"):
        make_attention("auto", GPU, "full", shards=Shards(2))
    with pytest.raises(UsageError, match="model: one that looks back at 256 positions does so in one cache"):
        make_attention("auto", CPU, reach=256, shards=Shards(2))
