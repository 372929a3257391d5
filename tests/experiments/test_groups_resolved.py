"""A spec of several KV cache groups: scheduler and runner get the same ones, and a model with layers enough."""

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.resolve import resolve, workload_of


def resolved(regime, runner=None, **settings):
    workload = {"regime": regime, "settings": settings} if settings else {"regime": regime}
    return resolve({"device": "cpu", "workload": workload, "runner": runner or {}})


def test_a_regime_of_groups_sets_those_of_the_runner():
    spec = resolved("hybrid")
    assert spec.runner.kv_groups == ("full", "window=64")
    assert spec.runner.model == "tiny"
    assert workload_of(spec).scheduler.kv_groups == spec.runner.kv_groups


def test_groups_of_the_spec_go_to_the_scheduler():
    spec = resolved("steady", {"kv_groups": ["full", "window=16", "window=32"]})
    assert spec.runner.kv_groups == ("full", "window=16", "window=32")
    assert workload_of(spec).scheduler.kv_groups == spec.runner.kv_groups
    assert spec.runner.model == "tiny-6"


def test_a_regime_of_kernel_blocks_says_how_large_they_are():
    assert resolved("kernel_blocks").runner.kernel_block_size == 16
    assert resolved("kernel_blocks", {"kernel_block_size": 8}).runner.kernel_block_size == 8
    assert resolved("kernel_blocks", block_size=64).runner.block_size == 64
    assert resolved("steady").runner.kernel_block_size is None


def test_groups_that_cannot_be_are_refused():
    with pytest.raises(UsageError, match="kv_groups: 'swa' is no group"):
        resolved("steady", {"kv_groups": ["swa"]})
    with pytest.raises(UsageError, match="enable_prefix_caching with a state group"):
        resolved("steady", {"kv_groups": ["full", "state"]})
