import torch
from stepscope.runner.devices.cuda_engine import under_cupti
from torch.profiler import ProfilerActivity, profile


def test_a_profiler_is_seen_while_it_records():
    assert not under_cupti()
    with profile(activities=[ProfilerActivity.CPU]):
        torch.ones(1)
        assert under_cupti()
    assert not under_cupti()
