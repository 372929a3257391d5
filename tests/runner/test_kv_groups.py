"""KV cache groups in the runner: kernel blocks, windows, groups without slots, layers, tables and their cache."""

import numpy as np
import pytest
import torch
from stepscope.errors import BrokenInvariant, UsageError
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.attention.layers import LayerMetadata, LayerSpec
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices.cpu import CpuDevice
from stepscope.runner.inputs.step_inputs import GroupTensors
from stepscope.runner.kv_groups import assign_layers, map_to_kernel_blocks, resolve_groups, row_blocks
from stepscope.runner.models.config import NAMED
from stepscope.runner.models.kv_cache import allocate_group_caches
from stepscope.runner.wiring import table_width
from stepscope.workloads.step import NewRequest, StepDelta


def groups_of(*texts, **config):
    return resolve_groups(RunnerConfig(**({"kv_groups": texts, "block_size": 16} | config)))


def test_manager_blocks_become_kernel_blocks():
    assert map_to_kernel_blocks([7, 2], 2).tolist() == [14, 15, 4, 5]
    assert map_to_kernel_blocks([7, 2], 1).tolist() == [7, 2]
    assert map_to_kernel_blocks([], 4).tolist() == []
    # in a row the parts of the null block are the null block: a window's null entries get no slot
    assert row_blocks([0, 3], 2).tolist() == [0, 0, 6, 7]


def test_kernel_blocks_oracle(runner_oracle):
    for case in runner_oracle("kernel_block_map"):
        given = case["in"]
        assert map_to_kernel_blocks(given["manager_row"], given["blocks_per_kv_block"]).tolist() == case["out"]
    (seed,) = [case for case in runner_oracle("flat_inputs_seed") if "manager_ids" in case["in"]]
    ratio = seed["in"]["manager_block"] // seed["in"]["kernel_block"]
    assert map_to_kernel_blocks(seed["in"]["manager_ids"], ratio).tolist() == seed["out"]["kernel_ids"]


def test_case_7(shared_case):
    case, expected = shared_case(7)
    (group,) = groups_of("full", block_size=case["manager_block"], kernel_block_size=case["kernel_block"])
    row = row_blocks(case["manager_ids"], group.ratio)
    assert row.tolist() == expected["kernel_row"]
    size = group.kernel_block_size
    slots = [int(row[position // size]) * size + position % size for position in case["positions"]]
    assert slots == expected["slots"] == expected["slots_via_manager"]
    (other,) = groups_of("full", block_size=528, kernel_block_size=16)
    assert other.ratio == expected["other_blocks_per_kv_block"]
    wide = row_blocks(case["other"]["manager_ids"], other.ratio)
    assert [wide[0], wide[-1]] == expected["other_kernel_row_first_last"]
    with pytest.raises(UsageError, match="kernel_block_size: 16 does not divide the block size 24"):
        groups_of("full", block_size=24, kernel_block_size=16)


def test_windows_pass_blocks_oracle(runner_oracle):
    for case in runner_oracle("sliding_window_null_v2"):
        given = case["in"]
        (group,) = groups_of(f"window={given['reach'] + 1}", block_size=given["block_size"])
        assert group.passed(np.array([given["num_computed"]], dtype=np.int32)).tolist() == [case["out"]]


def test_drafts_in_flight_hold_a_windows_blocks_back():
    computed = np.array([35, 36, 38, 39], dtype=np.int32)
    (exact,), (drafting,) = groups_of("window=5", block_size=4), groups_of("window=5", block_size=4, speculative=3)
    assert exact.passed(computed).tolist() == [7, 8, 8, 8]
    assert drafting.passed(computed).tolist() == [7, 7, 7, 8]
    (cut,) = groups_of("window=5", block_size=4, kernel_block_size=2)
    assert cut.passed(computed).tolist() == [14, 16, 16, 16]


def test_tables_are_as_wide_as_their_blocks_are_small():
    config = RunnerConfig(
        kv_groups=("full", "window=64/32", "state"), block_size=16, kernel_block_size=8, max_model_len=1000
    )
    full, window, state = resolve_groups(config)
    assert [table_width(config, group) for group in (full, window, state)] == [128, 128, 1]
    assert (state.block_size, state.ratio, state.has_slots) == (1000, 1, False)


def test_an_entry_of_the_table_is_a_block_of_all_ranks():
    config = RunnerConfig(dcp=4, dcp_interleave=2, block_size=16, kernel_block_size=8, max_model_len=1000)
    (group,) = resolve_groups(config)
    assert (group.block_size, group.kernel_block_size, group.rank_block_size, group.ratio) == (64, 32, 8, 2)
    # 1000 tokens take 16 blocks of 64, so 32 kernel blocks; a rank's kernels want whole 128 tokens of its own
    assert (group.blocks_for(1000), table_width(config, group)) == (32, 32)
    # each rank has every block, and a quarter of its tokens
    (layer,) = allocate_group_caches(CpuDevice(Ledger()), NAMED["micro"], 10, (group,), (0,)).layers
    assert layer.key.shape[:3] == (4, 20, 8)


@pytest.mark.parametrize(
    ("texts", "windows", "layers", "chosen"),
    [
        (("full",), None, 3, (0, 0, 0)),
        (("full", "window=8"), None, 5, (0, 1, 0, 1, 0)),
        (("state", "full", "window=8"), None, 3, (1, 2, 1)),
        (("full", "window=8"), (8, None, 8), 3, (1, 0, 1)),
        (("full",), (8, None), 2, (0, 0)),  # one group keeps all; the layer's window is a mask alone
        (("window=8", "full"), (4, 8), 2, (1, 0)),
    ],
)
def test_layers_find_their_group(texts, windows, layers, chosen):
    assert assign_layers(groups_of(*texts), windows, layers) == chosen


def test_layers_without_a_group_are_refused():
    with pytest.raises(UsageError, match="3 groups, but the model has 2 layers; use model=tiny-6"):
        assign_layers(groups_of("full", "window=8", "window=9"), None, 2)
    with pytest.raises(UsageError, match="no group keeps what layer 1 sees; add full"):
        assign_layers(groups_of("window=8"), (8, None), 2)
    with pytest.raises(UsageError, match="no group keeps what layer 0 sees; add window=4, or full"):
        assign_layers(groups_of("window=8"), (4, 8), 2)


def test_layers_of_different_groups_share_memory_and_those_of_one_do_not():
    groups = groups_of("full", "window=8", "window=8/32", kernel_block_size=8)
    cache = allocate_group_caches(CpuDevice(Ledger()), NAMED["tiny-6"], 10, groups, (0, 1, 2, 0, 1, 2))
    memory = [layer.key.data_ptr() for layer in cache.layers]
    assert memory[0] == memory[1] != memory[3] == memory[4]
    assert len(set(memory)) == 4
    assert [tuple(layer.key.shape[:2]) for layer in cache.layers[:3]] == [(20, 8), (20, 8), (40, 8)]
    # what is counted is memory: four pairs of arrays of 10 blocks, two of 16 tokens, two of 32
    assert cache.size_bytes == 2 * 2 * 10 * (16 + 32) * 2 * 16 * 4


class CountingBackend:
    name = "counting"

    def __init__(self):
        self.seen = []

    def build(self, common):
        self.seen.append((common.window, common.block_table, common.slot_mapping))
        return len(self.seen)


def test_metadata_is_built_once_a_spec_or_once_a_layer(tiny_runner):
    t = tiny_runner(model="tiny-6", kv_groups=("full", "window=8"))
    t.runner.execute(delta_of([(1,), (2,)]))
    common = t.runner.metadata.common
    groups = [GroupTensors(torch.zeros(1), torch.zeros(2)), GroupTensors(torch.ones(1), torch.ones(2))]
    specs = [LayerSpec(0, None), LayerSpec(1, 8), LayerSpec(1, 4), LayerSpec(0, None)]
    for reuse, handed, builds in (("shared", (1, 2, 3, 1), 3), ("per_layer", (1, 2, 3, 4), 4)):
        backend = CountingBackend()
        layers = LayerMetadata(backend, specs, reuse)
        assert layers.build(common, groups) == handed
        assert len(backend.seen) == builds
        assert [window for window, _, _ in backend.seen[:3]] == [None, 8, 4]
        tables = [table for _, table, _ in backend.seen[:3]]
        assert tables == [groups[0].block_table, groups[1].block_table, groups[1].block_table]
    plain = LayerMetadata(CountingBackend(), [LayerSpec(0, None)] * 5)
    assert plain.build(common, groups) == (1, 1, 1, 1, 1)


def delta_of(block_ids, computed=0, count=3):
    prompt = np.arange(computed + count, dtype=np.int32)
    new = NewRequest("A", prompt, tuple(map(tuple, block_ids)), computed)
    return StepDelta(0, (new,), num_scheduled_tokens={"A": count})


@pytest.mark.parametrize("slot_mapping", ["triton", "torch", "host"])
@pytest.mark.parametrize("batch_state", ["persistent", "stable_slots"])
def test_a_state_group_has_a_table_and_no_slots(tiny_runner, slot_mapping, batch_state):
    t = tiny_runner(kv_groups=("full", "state"), slot_mapping=slot_mapping, batch_state=batch_state)
    seen = []
    t.runner.observe(lambda name, facts: seen.append(facts["inputs"]) if name == "slot_mapping" else None)
    t.runner.execute(delta_of([(5,), (9,)]))
    full, state = seen[0].groups
    assert full.slots[:3].tolist() == [20, 21, 22]
    assert state.block_table[0].tolist() == [9]
    assert state.slots.tolist() == [-1] * 64


def test_a_group_without_mapping_oracle(tiny_runner, runner_oracle):
    (case,) = [case for case in runner_oracle("slot_mapping_asserted_v2") if "group_mapping_disabled" in case["in"]]
    t = tiny_runner(kv_groups=("full", "state"))
    t.runner.execute(delta_of([(5,), (9,)], count=case["in"]["num_tokens"]))
    slots = t.runner.inputs.containers.groups[1].slots
    assert slots[: case["in"]["num_tokens"]].tolist() == case["out"]


def test_blocks_below_a_window_are_null_on_the_device_and_what_is_seen_stays(tiny_runner, cached):
    # GIVEN blocks of 4, a window of 6 and a request that had 12 tokens computed elsewhere
    t = tiny_runner(kv_groups=("full", "window=6"))
    t.runner.execute(delta_of([(1, 2, 3, 4), (0, 5, 6, 7)], computed=12, count=2))
    tables = [group.block_table[0, :4].tolist() for group in t.runner.inputs.containers.groups]
    # THEN the query at 12 sees 7 .. 12: block 1 of the windowed row stays, the full row is whole
    assert tables == [[1, 2, 3, 4], [0, 5, 6, 7]]


def test_a_token_below_its_window_is_a_broken_invariant(tiny_runner):
    t = tiny_runner(kv_groups=("full", "window=6"))
    with pytest.raises(BrokenInvariant, match=r"slot_ownership .* group 1: token 0 of 'A' has no slot"):
        t.runner.execute(delta_of([(1,), (0,)]))
