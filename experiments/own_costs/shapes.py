"""Which shapes of step a run replayed, and how often: what padding costs is measured where it carries weight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...instrumentation.probe.ledger import Ledger, Row
from ...instrumentation.recording.schema import TABLES
from ...runner.devices.base import GraphMode

LEAST_SHARE = 0.01
"""Of the counted steps: a shape that carries less is not measured."""


@dataclass(frozen=True, slots=True)
class ReplayShape:
    """Steps that replayed the graph of `size` with `tokens` real tokens; the rest is that of their median step by KV.

    rows          requests, of which `prefill_rows` still had prompt to compute
    kv_tokens     sum of sequence lengths behind the step
    steps, share  how many counted steps had this mode, size and token count, and of how many
    """

    mode: GraphMode
    size: int
    tokens: int
    rows: int
    prefill_rows: int
    kv_tokens: int
    steps: int
    share: float


def _columns(table: str, *names: str) -> tuple[int, ...]:
    """Positions in a ledger's row, which begins with the step."""
    all_names = [column.name for column in TABLES[table]]
    return tuple(1 + all_names.index(name) for name in names)


_DECIDED = _columns("dispatch", "mode", "size", "num_tokens")
_COPIED = _columns("copies", "buffer", "size_bytes", "src_kind")
_STEPPED = _columns("steps", "num_reqs", "num_prefill", "kv_tokens_sum", "warmup", "complete")


class ReplayTally:
    """Reads along as a ledger's rows are handed over."""

    def __init__(self) -> None:
        self._decided: dict[int, tuple[GraphMode, int | None, int]] = {}
        self._stepped: dict[int, tuple[int, int, int]] = {}
        self._copied: Counter[tuple[str, int]] = Counter()

    def take(self, ledger: Ledger) -> dict[str, list[Row]]:
        """The ledger's rows, noted on the way."""
        rows = ledger.take()
        self.add(rows)
        return rows

    def add(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """Note decisions and the steps that count: complete, and no warm-up."""
        for row in rows.get("dispatch", ()):
            mode, size, tokens = (row[at] for at in _DECIDED)
            self._decided[row[0]] = (mode, size, tokens)
        for row in rows.get("steps", ()):
            num_reqs, prefill, kv_tokens, warmup, complete = (row[at] for at in _STEPPED)
            if complete and not warmup:
                self._stepped[row[0]] = (num_reqs, prefill, kv_tokens)
        for row in rows.get("copies", ()):
            buffer, size_bytes, src_kind = (row[at] for at in _COPIED)
            if src_kind == "pinned":
                self._copied[buffer, size_bytes] += 1

    def usual_copy_bytes(self, buffer: str) -> int | None:
        """The size that most copies of `buffer` from page-locked memory had, the largest of equally many; None of none.
        """
        sizes = [(count, size) for (name, size), count in self._copied.items() if name == buffer]
        return max(sizes)[1] if sizes else None

    def shapes(self, least_share: float = LEAST_SHARE) -> tuple[ReplayShape, ...]:
        """What was replayed in at least `least_share` of the counted steps that ran a forward, most frequent first."""
        groups: dict[tuple[GraphMode, int, int], list[tuple[int, int, int]]] = {}
        counted = 0
        for step, (mode, size, tokens) in self._decided.items():
            stepped = self._stepped.get(step)
            if stepped is None:
                continue
            counted += 1
            if size is not None:
                groups.setdefault((mode, size, tokens), []).append(stepped)
        shapes = [_shape(key, steps, counted) for key, steps in groups.items()]
        kept = [shape for shape in shapes if shape.share >= least_share]
        return tuple(sorted(kept, key=lambda shape: (-shape.steps, shape.mode, shape.size, shape.tokens)))


def _shape(
    key: tuple[GraphMode, int, int], steps: Sequence[tuple[int, int, int]], counted: int
) -> ReplayShape:
    mode, size, tokens = key
    rows, prefill_rows, kv_tokens = sorted(steps, key=lambda step: step[2])[(len(steps) - 1) // 2]
    return ReplayShape(mode, size, tokens, rows, prefill_rows, kv_tokens, len(steps), len(steps) / counted)
