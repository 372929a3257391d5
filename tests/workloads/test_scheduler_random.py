"""Random workloads against a slow worker that believes nothing but the deltas."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from stepscope.workloads.requests import PrefixHashes, Request
from stepscope.workloads.scheduler import Scheduler, SchedulerConfig
from stepscope.workloads.step import StepDelta, StepResult

BLOCK = 4
PREFIX = 8


@dataclass
class Row:
    tokens: list[int]
    blocks: list[int]
    computed: int


class Worker:
    """Applies deltas to rows and to a content for each block, and checks what must hold before each step."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.rows: dict[str, Row] = {}
        self.content: dict[int, dict[int, tuple[int, ...]]] = {}  # block -> offset -> prefix written
        self.known: set[str] = set()

    def apply(self, delta: StepDelta) -> list[str]:
        """Run the step; the requests that sample."""
        self._forget(delta)
        for new in delta.new_requests:
            assert new.req_id not in self.known
            self.known.add(new.req_id)
            self.rows[new.req_id] = Row(new.prompt_token_ids.tolist(), list(new.block_ids[0]), new.num_computed_tokens)
        self._update_cached(delta)
        self._check(delta)
        self._write(delta)
        return [name for name in delta.num_scheduled_tokens if self.rows[name].computed == len(self.rows[name].tokens)]

    def _forget(self, delta: StepDelta) -> None:
        for name in (*delta.finished_req_ids, *delta.preempted_req_ids):
            self.rows.pop(name, None)

    def _update_cached(self, delta: StepDelta) -> None:
        cached = delta.cached
        columns = zip(cached.req_ids, cached.new_block_ids, cached.num_computed_tokens, strict=True)
        for index, (name, blocks, computed) in enumerate(columns):
            assert name in self.known
            added = [] if blocks is None else list(blocks[0])
            if name in cached.resumed_req_ids:
                assert name not in self.rows
                self.rows[name] = Row(cached.all_token_ids[name].tolist(), added, computed)
            else:
                self.rows[name].blocks += added
            row = self.rows[name]
            assert row.computed == computed
            if name in cached.all_token_ids:
                assert cached.all_token_ids[name].tolist() == row.tokens
            assert cached.num_output_tokens[index] >= 0

    def _check(self, delta: StepDelta) -> None:
        scheduled = delta.num_scheduled_tokens
        assert set(scheduled) == {new.req_id for new in delta.new_requests} | set(delta.cached.req_ids)
        assert sum(scheduled.values()) <= self.config.max_num_batched_tokens
        assert len(self.rows) <= self.config.max_num_seqs
        for name, row in self.rows.items():
            assert 0 not in row.blocks
            assert len(set(row.blocks)) == len(row.blocks)
            assert all(0 < block < self.config.num_blocks for block in row.blocks)
            count = scheduled.get(name, 1)
            assert count >= 1
            assert row.computed + scheduled.get(name, 0) <= len(row.blocks) * BLOCK
            assert row.computed + scheduled.get(name, 0) <= len(row.tokens)

    def _write(self, delta: StepDelta) -> None:
        """Each position writes the prefix that it stands for; afterwards every row reads its own prefixes back."""
        for name, count in delta.num_scheduled_tokens.items():
            row = self.rows[name]
            for position in range(row.computed, row.computed + count):
                cell = self.content.setdefault(row.blocks[position // BLOCK], {})
                cell[position % BLOCK] = tuple(row.tokens[: position + 1])
            row.computed += count
        for row in self.rows.values():
            for position in range(row.computed):
                cell = self.content[row.blocks[position // BLOCK]]
                assert cell[position % BLOCK] == tuple(row.tokens[: position + 1])


shapes = st.lists(
    st.tuples(st.integers(1, 26), st.integers(1, 9), st.integers(0, 3), st.integers(0, 12)), min_size=1, max_size=14
)
limits = st.fixed_dictionaries(
    {
        "max_num_seqs": st.integers(1, 8),
        "max_num_batched_tokens": st.integers(1, 40),
        "num_blocks": st.integers(11, 40),
        "enable_prefix_caching": st.booleans(),
        "long_prefill_token_threshold": st.sampled_from([0, 3, 7]),
        "prefill_schedule_interval": st.integers(1, 3),
        "watermark": st.sampled_from([0.0, 0.2]),
        "reserve_full_input": st.booleans(),
        "reserve_output": st.booleans(),
    }
)


def request_of(index: int, prompt_len: int, output_len: int, prefix: int) -> Request:
    own = -(-prompt_len // PREFIX)
    hashes = PrefixHashes(PREFIX, (prefix, *range(100 * index + 10, 100 * index + 10 + own))) if prefix else None
    return Request(f"r{index}", prompt_len, output_len, 5, prefix=hashes)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(shapes=shapes, limits=limits, resets=st.sets(st.integers(0, 30), max_size=2))
def test_every_request_is_answered_and_every_cell_holds_what_its_reader_expects(shapes, limits, resets) -> None:
    config = SchedulerConfig(block_size=BLOCK, max_model_len=40, **limits)
    scheduler, worker = Scheduler(config), Worker(config)
    arrivals = sorted((arrival, index) for index, (*_, arrival) in enumerate(shapes))
    outputs: dict[str, int] = {}
    step = 0
    while arrivals or scheduler.has_unfinished() or scheduler.has_pending_finished():
        assert step < 3000
        while arrivals and arrivals[0][0] <= step:
            index = arrivals.pop(0)[1]
            scheduler.add_request(request_of(index, *shapes[index][:3]))
        if step in resets:
            scheduler.forced_reset()
        delta = scheduler.schedule()
        samplers = worker.apply(delta)
        assert samplers == scheduler.covered(delta)
        for name in samplers:
            # few different tokens, so that answers share prefixes too
            worker.rows[name].tokens.append(len(worker.rows[name].tokens) % 2)
            outputs[name] = outputs.get(name, 0) + 1
        scheduler.update(StepResult(step, {name: (worker.rows[name].tokens[-1],) for name in samplers}))
        step += 1
    assert outputs == {f"r{index}": output for index, (_, output, *_rest) in enumerate(shapes)}
    assert scheduler.num_free_blocks == config.num_blocks - 1
    assert not worker.rows
