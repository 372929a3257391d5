"""Drafts of a step on their way to the device: among its input ids, and beside them for the sampler to verify."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import numpy as np

from ..buffers.ports import InputBuffer
from .drafts import NO_DRAFT
from .expansion import Expansion, IntArray, expand
from .metadata import SpecDecodeMetadata


class DraftPlacement(Protocol):
    """Three calls a step, in this order; each belongs to a part of input preparation.

    read_by_sampler  copies fill device buffers that the sampler reads, behind the forward
    """

    read_by_sampler: bool

    def place(
        self, drafts: Mapping[str, tuple[int, ...]], req_ids: tuple[str, ...], scheduled: IntArray,
        input_ids: IntArray,
    ) -> None:
        """Write the step's drafts over the last of the `scheduled` [R] tokens of their rows in `input_ids`."""
        ...

    def publish(self) -> None:
        """Among the step's copies to the device."""
        ...

    def metadata(self) -> SpecDecodeMetadata | None:
        """What the sampler verifies; None when no row has drafts."""
        ...


class NoDrafts:
    """`speculative: off`."""

    read_by_sampler = False

    def place(
        self, drafts: Mapping[str, tuple[int, ...]], req_ids: tuple[str, ...], scheduled: IntArray,
        input_ids: IntArray,
    ) -> None:
        """Nothing."""

    def publish(self) -> None:
        """Nothing."""

    def metadata(self) -> SpecDecodeMetadata | None:
        """Nothing to verify."""
        return None


@dataclass(frozen=True, slots=True)
class DraftsOnHost:
    """The drafts of one step by row: table [R, k], NO_DRAFT behind each row's and for drafts that nobody has."""

    table: IntArray
    expansion: Expansion


class HostDrafts:
    """Drafts that the delta names. They never enter a history: a rejected one has not been there.

    All that the sampler needs travels in one copy: drafts [R * k], first places [R], places [R + D], int32.
    """

    read_by_sampler = True

    def __init__(self, buffer: InputBuffer, num_drafts: int) -> None:
        self._buffer = buffer
        self._k = num_drafts
        self._columns = np.arange(num_drafts)
        self._now: DraftsOnHost | None = None

    def place(
        self, drafts: Mapping[str, tuple[int, ...]], req_ids: tuple[str, ...], scheduled: IntArray,
        input_ids: IntArray,
    ) -> None:
        """A draft that only a placeholder stands for is fed as token 0, and nothing accepts it."""
        self._now = None
        if not drafts:
            return
        rows = [drafts.get(req_id, ()) for req_id in req_ids]
        counts = np.fromiter(map(len, rows), dtype=np.int32, count=len(rows))
        tokens = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=int(counts.sum()))
        table = np.full((len(rows), self._k), NO_DRAFT, dtype=np.int32)
        table[self._columns < counts[:, None]] = tokens
        expansion = expand(scheduled, counts)
        places = expansion.logits_indices[expansion.target_logits_indices] + 1
        input_ids[places] = np.maximum(tokens, 0)
        self._now = DraftsOnHost(table, expansion)

    def counts(self, num_rows: int) -> IntArray:
        """[num_rows] drafts of each row of the step."""
        if self._now is None:
            return np.zeros(num_rows, dtype=np.int32)
        return self._now.expansion.num_draft_tokens

    def publish(self) -> None:
        """One copy, as long as this step needs."""
        if self._now is None:
            return
        table, expansion, host = self._now.table, self._now.expansion, self._buffer.acquire()
        first, places, end = _borders(table.size, table.shape[0], expansion.num_logits)
        host[:first] = table.reshape(-1)
        host[first:places] = expansion.first_logits_indices
        host[places:end] = expansion.logits_indices
        self._buffer.publish(end)

    def metadata(self) -> SpecDecodeMetadata | None:
        """Views of what `publish` sends."""
        if self._now is None:
            return None
        table, expansion, gpu = self._now.table, self._now.expansion, self._buffer.gpu
        first, places, end = _borders(table.size, table.shape[0], expansion.num_logits)
        return SpecDecodeMetadata(expansion, table, gpu[:first].view(-1, self._k), gpu[first:places], gpu[places:end])


def _borders(num_drafts: int, num_rows: int, num_logits: int) -> tuple[int, int, int]:
    """Where the first places begin, the places, and the end."""
    return num_drafts, num_drafts + num_rows, num_drafts + num_rows + num_logits


def buffer_size(rows: int, num_drafts: int) -> int:
    """Elements that a step of `rows` rows with all their drafts needs."""
    return _borders(rows * num_drafts, rows, rows * (1 + num_drafts))[2]
