"""A stamp beside each KV cell: who wrote it, for which position, behind which text; and whether each reader finds his.

The checks of one step see who writes where. What a step reads was written many steps ago, into a block that may have
been somebody else's in between, so it takes a memory of its own to see that a read meets the right cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...workloads.step import StepDelta
from ..inputs.step_inputs import IntArray, LongArray
from ..kv_groups import KVGroup
from .truth import IN_FLIGHT, RequestTruth
from .view import StepView, host, slots_of

Chain = npt.NDArray[np.uint64]
_NOBODY, _PADDING = -1, -2
_FOLD, _STEP, _SPREAD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def _no_tokens() -> IntArray:
    return np.full(16, IN_FLIGHT, dtype=np.int32)


@dataclass(slots=True)
class _Life:
    """A request between two losses of its blocks. The first `hit` cells were found: they are anybody's, or of a time
    that nobody followed. `fed` [>= n] are the tokens by position that forwards have read, the last of each where a
    draft was rejected.
    """

    number: int
    hit: int
    fed: IntArray = field(default_factory=_no_tokens)

    def reach(self, length: int) -> None:
        """Make room for `length` positions."""
        if self.fed.size < length:
            self.fed = np.concatenate((self.fed, np.full(length, IN_FLIGHT, dtype=np.int32)))


class _Cells:
    """Stamps of one memory, [slots]: groups with blocks of one size lie in the same memory."""

    def __init__(self) -> None:
        self.writer: LongArray = np.empty(0, dtype=np.int64)
        self.position: LongArray = np.empty(0, dtype=np.int64)
        self.chain: Chain = np.empty(0, dtype=np.uint64)

    def reach(self, slots: LongArray) -> None:
        """Have cells up to the last of `slots`; nobody has written a new one."""
        missing = int(slots.max(initial=-1)) + 1 - self.writer.size
        if missing > 0:
            missing = max(missing, self.writer.size)
            self.writer = np.append(self.writer, np.full(missing, _NOBODY, dtype=np.int64))
            self.position = np.append(self.position, np.zeros(missing, dtype=np.int64))
            self.chain = np.append(self.chain, np.zeros(missing, dtype=np.uint64))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The step's sequences on the device, one behind the other: N = the sum of their lengths.

    starts, lengths, numbers, hits  [R];  positions  [N];  right, fed  [N] chains of the text and of what was fed
    """

    starts: LongArray
    lengths: LongArray
    numbers: LongArray
    hits: LongArray
    positions: LongArray
    right: Chain
    fed: Chain


class KVStamps:
    """Follows every step; `reads` counts the cells that were looked at."""

    def __init__(self, groups: Sequence[KVGroup]) -> None:
        self._groups = tuple(groups)
        self._cells = {group.block_size: _Cells() for group in groups}
        self._lives: dict[str, _Life] = {}
        self._born = 0
        self.reads = 0

    def follow(self, delta: StepDelta) -> None:
        """Who lost its blocks starts a new life; call it for every step."""
        for req_id in {*delta.finished_req_ids, *delta.preempted_req_ids}:
            self._lives.pop(req_id, None)
        hits = {new.req_id: new.num_computed_tokens for new in delta.new_requests}
        for req_id, computed in zip(delta.cached.req_ids, delta.cached.num_computed_tokens, strict=True):
            if req_id in delta.cached.resumed_req_ids:
                hits[req_id] = computed
        for req_id, hit in hits.items():
            self._lives[req_id] = _Life(self._born, hit)
            self._born += 1

    def check(self, view: StepView) -> str | None:
        """Stamp what the step writes, in all groups, then read what its attention reads."""
        positions = host(view.inputs.positions_gpu)[: view.inputs.num_tokens]
        lengths = host(view.inputs.seq_lens_gpu)[: view.inputs.num_reqs].astype(np.int64)
        outside = np.flatnonzero((positions < 0) | (positions >= lengths[view.expected_rows]))
        if outside.size:
            token = int(outside[0])
            owner = view.inputs.req_ids[int(view.expected_rows[token])]
            return f"token {token} of {owner!r} stands at {positions[token]}, outside its sequence"
        rows = self._rows(view, positions, lengths)
        for index, group in enumerate(self._groups):
            if group.has_slots:
                self._write(view, index, positions, rows)
        faults = (self._read(view, index, rows) for index, group in enumerate(self._groups) if group.has_slots)
        return next((fault for fault in faults if fault is not None), None)

    def _rows(self, view: StepView, positions: LongArray, lengths: LongArray) -> _Rows:
        lives = [self._lives[req_id] for req_id in view.inputs.req_ids]
        ids, ends = host(view.inputs.input_ids), np.cumsum(view.expected_scheduled)
        right: list[IntArray] = []
        for life, truth, length, end, count in zip(
            lives, view.truths, lengths.tolist(), ends.tolist(), view.expected_scheduled.tolist(), strict=True
        ):
            life.reach(length)
            life.fed[: life.hit] = truth.prompt_and_outputs()[: life.hit]
            life.fed[positions[end - count : end]] = ids[end - count : end]
            right.append(_known_text(truth, life, length))
        starts = np.cumsum(lengths) - lengths
        flat = np.arange(int(lengths.sum())) - np.repeat(starts, lengths)
        fed = np.concatenate([life.fed[:length] for life, length in zip(lives, lengths.tolist(), strict=True)])
        return _Rows(
            starts,
            lengths,
            np.asarray([life.number for life in lives], dtype=np.int64),
            np.asarray([life.hit for life in lives], dtype=np.int64),
            flat,
            _chains(np.concatenate(right), flat, starts, lengths),
            _chains(fed, flat, starts, lengths),
        )

    def _write(self, view: StepView, group: int, positions: LongArray, rows: _Rows) -> None:
        """As the forward does: whatever has a slot is written, padding too."""
        slots = slots_of(view, group)
        cells = self._cells[self._groups[group].block_size]
        cells.reach(slots)
        stray = slots[view.inputs.num_tokens :]
        cells.writer[stray[stray >= 0]] = _PADDING
        written = np.flatnonzero(slots[: view.inputs.num_tokens] >= 0)
        at, owners = slots[written], view.expected_rows[written]
        cells.writer[at] = rows.numbers[owners] * len(self._groups) + group
        cells.position[at] = positions[written]
        cells.chain[at] = rows.fed[rows.starts[owners] + positions[written]]

    def _read(self, view: StepView, group: int, rows: _Rows) -> str | None:
        """Every position that some query of the step sees, by the device's own table and length."""
        of, cells = self._groups[group], self._cells[self._groups[group].block_size]
        seen = rows.positions
        owner = np.repeat(np.arange(rows.lengths.size), rows.lengths)
        place = np.arange(seen.size)
        if of.window is not None:
            first = rows.lengths - view.expected_scheduled - of.window + 1
            place = np.flatnonzero(seen >= first[owner])
            seen, owner = seen[place], owner[place]
        table = host(view.inputs.groups[group].block_table)
        logical, offset = np.divmod(seen, of.kernel_block_size)
        inside = logical < table.shape[1]
        slots = np.where(inside, table[owner, np.where(inside, logical, 0)], 0).astype(np.int64)
        slots = slots * of.kernel_block_size + offset
        cells.reach(slots)
        writer, groups = cells.writer[slots], len(self._groups)
        found = (seen < rows.hits[owner]) & (writer >= 0) & (writer % groups == group)
        right = found | (writer == rows.numbers[owner] * groups + group)
        right &= (cells.position[slots] == seen) & (cells.chain[slots] == rows.right[place])
        right |= (seen < rows.hits[owner]) & (writer == _NOBODY)
        wrong = np.flatnonzero(~right)
        self.reads += seen.size
        if not wrong.size:
            return None
        at = int(wrong[0])
        return self._describe(view, int(owner[at]), int(seen[at]), cells, (group, int(slots[at])))

    def _describe(self, view: StepView, row: int, position: int, cells: _Cells, cell: tuple[int, int]) -> str:
        group, slot = cell
        writer, names = int(cells.writer[slot]), {life.number: req_id for req_id, life in self._lives.items()}
        found = "that no request has written" if writer < 0 else (
            f"of {names.get(writer // len(self._groups), 'a request that is gone')!r} at position"
            f" {cells.position[slot]}" + (f" in group {writer % len(self._groups)}" if len(self._groups) > 1 else "")
        )  # fmt: skip
        where = f"group {group}: " if group else ""
        reader = view.inputs.req_ids[row]
        text = " behind another text" if writer >= 0 and cells.position[slot] == position else ""
        return f"{where}{reader!r} reads position {position} in slot {slot}, a cell {found}{text}"


def _known_text(truth: RequestTruth, life: _Life, length: int) -> IntArray:
    """[length] what the host knows to be the text, and where it does not know yet what was fed."""
    text = life.fed[:length].copy()
    known = truth.prompt_and_outputs()[:length]
    text[: known.size] = np.where(known == IN_FLIGHT, text[: known.size], known)
    return text


def _chains(tokens: IntArray, positions: LongArray, starts: LongArray, lengths: LongArray) -> Chain:
    """[N] for each place a number that depends on all tokens of its row up to there, and on where they stand."""
    mixed = (tokens.astype(np.uint64) + np.uint64(1)) * _FOLD ^ (positions.astype(np.uint64) + np.uint64(1)) * _STEP
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _SPREAD
    mixed ^= mixed >> np.uint64(32)
    sums = np.cumsum(mixed, dtype=np.uint64)
    before = np.concatenate((np.zeros(1, dtype=np.uint64), sums))[starts]
    chains: Chain = sums - np.repeat(before, lengths)
    return chains
