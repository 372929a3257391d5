"""Block tables that come by several buffers (KV cache groups, changed rows): figures of each, and all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.exposure import Exposure, exposure
from ...analysis.stats import Number, median
from ...analysis.tables import TableSource, flags, ints


@dataclass(frozen=True, slots=True)
class GroupCopies:
    """Copies of one such buffer in the counted steps: medians, and what a free copy takes off a step."""

    buffer: str
    copies: int
    size_p50_bytes: Number | None
    copy_p50_ns: Number | None
    exposed_p50_ns: Number | None
    hidden_p50_ns: Number | None
    exposed_step_ns: Number | None
    reason: str
    step_reason: str


def group_copies(recording: TableSource, buffers: Sequence[str], known: Exposure) -> tuple[GroupCopies, ...]:
    """A row a buffer, where there are several. `known` is the exposure of the first, computed already."""
    if len(buffers) < 2:
        return ()
    rest = (exposure(recording, buffer) for buffer in buffers[1:])
    return tuple(_group(buffer, found) for buffer, found in zip(buffers, (known, *rest), strict=True))


def _group(buffer: str, found: Exposure) -> GroupCopies:
    rows = found.steps[flags(found.steps, "counted", null=False)]
    medians = {}
    for name in ("size_bytes", "copy_ns", "exposed_ns", "hidden_ns"):
        values, valid = ints(rows, name)
        medians[name] = median(values[valid])
    reasons = [str(reason) for reason in rows["reason"].dropna()]
    return GroupCopies(
        buffer, len(rows), medians["size_bytes"], medians["copy_ns"], medians["exposed_ns"], medians["hidden_ns"],
        found.exposed_step_ns, max(reasons, key=reasons.count) if reasons else "the recording does not say why",
        found.exposed_step_reason or "",
    )  # fmt: skip
