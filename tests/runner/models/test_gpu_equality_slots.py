"""On a GPU: slots, differences, sets of buffers and host memory read in place give transformers' greedy text."""

from contextlib import closing

import pytest
import torch
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.devices import make_device

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
TIGHT = {"max_num_seqs": 16, "max_num_batched_tokens": 48, "num_blocks": 240, "check": "every"}
GRAPHS = {"graph_mode": "full_and_piecewise", "capture_sizes": (7, 23, 48)}
SLOTS = {"batch_state": "stable_slots", "block_table_commit": "staged"}


@pytest.mark.parametrize(
    "switches",
    [
        SLOTS | GRAPHS | {"copy_stream": "dedicated", "device_buffers": "double"},
        SLOTS | {"h2d_packing": "packed", "staging": "fresh_pinned", "history": "pinned"},
        SLOTS | GRAPHS | {"staging": "zero_copy", "device_buffers": "double"},
        {"batch_state": "stable_slots", "staging": "zero_copy", "slot_mapping": "host"},
        {"block_table_commit": "staged", "copy_stream": "dedicated", "device_buffers": "staged_d2d"} | GRAPHS,
        {"block_table_commit": "dirty_rows", "copy_stream": "dedicated", "h2d_packing": "packed"},
        {"batch_state": "rebuild", "copy_stream": "dedicated", "device_buffers": "double", "commit_order": "last"},
    ],
    ids=["double", "packed", "shared", "shared-full", "landing", "dirty", "rebuild"],
)
def test_the_second_design(run, gpu_reference, switches):
    outcome = run(gpu_reference.requests, "cuda", **TIGHT, **switches)
    assert outcome.num_resumed > 3
    assert outcome.outputs == gpu_reference.outputs
    if switches.get("staging") == "zero_copy":
        assert not [row for row in outcome.copies if row[1] == "h2d"]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.bool, torch.uint8])
def test_the_gpu_reads_and_writes_host_memory_where_it_lies(dtype):
    with closing(make_device("cuda", ledger=Ledger())) as device:
        host = device.host_tensor((3, 5), dtype, pinned=True)
        mapped = device.map_host(host)
        assert (mapped.device.type, mapped.dtype, mapped.shape) == ("cuda", dtype, host.shape)
        assert mapped.data_ptr() == host.data_ptr()
        host[1] = 1
        copy = mapped.clone()
        device.synchronize()
        assert copy.cpu().tolist() == host.tolist()
        mapped[2] = 1
        device.synchronize()
        assert host[2].tolist() == [1] * 5
