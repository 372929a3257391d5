"""A runner that joins a workload late: the steps before are scheduled, and answered without it.

What a step costs depends on who is in it, how long they are and where their blocks lie. All of that the deltas say, so
a runner need not compute thousands of steps to stand in the middle of a trace. What it has not computed is the content
of its KV cache: it holds zeros, the tokens mean nothing, and times are those of the same shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ..workloads.fake_worker import FakeWorker
from ..workloads.step import BlockIds, CachedRequests, NewRequest, SamplingParams, StepDelta, StepResult, TokenIds
from ..workloads.workload import Workload
from .loop import Engine, LoopDevice, Pending

_TOKEN = 1
_Row = tuple[str, BlockIds | None, int, int]
"""Columns of CachedRequests: id, new blocks, computed and output tokens."""


@dataclass(frozen=True, slots=True)
class _Answered:
    """A step that nobody ran."""

    answer: StepResult

    def result(self) -> StepResult:
        """See Pending."""
        return self.answer


@dataclass(slots=True)
class _Life:
    """A request that the runner was not told of: what it would know by now. `blocks` is its row, group by group."""

    prompt: TokenIds
    sampling: SamplingParams
    blocks: list[list[int]] = field(default_factory=list)

    def take_blocks(self, added: BlockIds | None, *, resumed: bool) -> None:
        """Its row grows, or is another one behind a resume."""
        if resumed:
            self.blocks = []
        if added is not None:
            self.blocks = self.blocks or [[] for _ in added]
            for row, ids in zip(self.blocks, added, strict=True):
                row.extend(ids)


class JoinsLate:
    """An engine: the deltas before `first_step` it answers itself, the others go to `engine`.

    Requests that are alive then come to the runner as new ones when they are scheduled next: what they have said by
    then counts as their prompt, and its KV as found.
    """

    def __init__(self, engine: Engine, device: LoopDevice, workload: Workload, first_step: int) -> None:
        self._engine, self._device, self._first = engine, device, first_step
        self._worker = FakeWorker(workload)
        self._drafts = workload.scheduler.num_speculative_tokens > 0
        self._late: dict[str, _Life] = {}
        self._said: dict[str, int] = {}  # by request that joined: outputs that are in its prompt

    def submit(self, delta: StepDelta) -> Pending:
        """See Engine."""
        if delta.step >= self._first and not self._late and not (self._drafts and self._said):
            return self._engine.submit(delta)
        with self._device.paused():
            strangers = delta.finished_req_ids & self._late.keys()
            covered = self._follow(delta)
            if delta.step < self._first:
                return _Answered(self._worker.run(delta, covered))
            delta = self._joined(replace(delta, finished_req_ids=delta.finished_req_ids - strangers))
        return self._engine.submit(delta)

    def _follow(self, delta: StepDelta) -> list[str]:
        """Take in what the runner does not hear; who of these requests samples in this step."""
        scheduled, drafts, covered = delta.num_scheduled_tokens, delta.scheduled_spec_decode_tokens, []
        for req_id in delta.finished_req_ids:
            self._late.pop(req_id, None)
            self._said.pop(req_id, None)
        for new in delta.new_requests if delta.step < self._first else ():
            life = self._late[new.req_id] = _Life(new.prompt_token_ids, new.sampling)
            life.take_blocks(new.block_ids, resumed=False)
            if new.num_computed_tokens + scheduled[new.req_id] >= new.prompt_token_ids.size:
                covered.append(new.req_id)
        for req_id, added, computed, outputs in _rows(delta.cached):
            followed = self._late.get(req_id)
            if followed is None:
                continue
            followed.take_blocks(added, resumed=req_id in delta.cached.resumed_req_ids)
            if computed + scheduled[req_id] >= followed.prompt.size + outputs + len(drafts.get(req_id, ())):
                covered.append(req_id)
        return covered

    def _joined(self, delta: StepDelta) -> StepDelta:
        """The delta as the runner understands it: whom it has not met is new."""
        cached, rows = delta.cached, list(_rows(delta.cached))
        fresh = {row[0]: self._arrival(row, cached.all_token_ids.get(row[0])) for row in rows if row[0] in self._late}
        met = [
            (req_id, added, computed, outputs - self._said.get(req_id, 0))
            for req_id, added, computed, outputs in rows if req_id not in fresh
        ]  # fmt: skip
        req_ids, blocks, computed, outputs = zip(*met, strict=True) if met else ((), (), (), ())
        histories = {req_id: held for req_id, held in cached.all_token_ids.items() if req_id not in fresh}
        resumed = cached.resumed_req_ids - fresh.keys()
        known = CachedRequests(req_ids, blocks, computed, outputs, resumed, histories)
        drafts = {  # nobody has proposed any to those that are new
            req_id: (_TOKEN,) * len(named) if req_id in fresh else named
            for req_id, named in delta.scheduled_spec_decode_tokens.items()
        }
        return replace(
            delta, new_requests=(*delta.new_requests, *fresh.values()), cached=known,
            preempted_req_ids=tuple(req_id for req_id in delta.preempted_req_ids if req_id not in self._late),
            scheduled_spec_decode_tokens=drafts,
        )  # fmt: skip

    def _arrival(self, row: _Row, history: TokenIds | None) -> NewRequest:
        req_id, _, computed, outputs = row
        life = self._late.pop(req_id)
        if history is None:
            history = np.concatenate((life.prompt, np.full(outputs, _TOKEN, dtype=np.int32)))
        self._said[req_id] = outputs
        return NewRequest(req_id, history, tuple(map(tuple, life.blocks)), computed, life.sampling)


def _rows(cached: CachedRequests) -> Iterator[_Row]:
    return zip(
        cached.req_ids, cached.new_block_ids, cached.num_computed_tokens, cached.num_output_tokens, strict=True
    )
