"""Staged buffers: how much they hold, move and change, whether they are pinned, reused, and overwritten too early."""

from __future__ import annotations

import pandas as pd

from .columns import Columns
from .stats import median, total
from .tables import BoolArray, LongArray, Process, Table, TableSource, columns_of, gather, records

COLUMNS = {
    "buffer": "string", "memory": "string", "capacity_bytes": "Int64", "reserved_bytes": "Int64",
    "used_p50_bytes": "Float64", "used_max_bytes": "Int64", "slots": "Int64", "uses": "Int64", "reuse_max": "Int64",
    "waits": "Int64", "wait_ns": "Int64", "hazards_none": "Int64", "hazards_possible": "Int64",
    "hazards_observed": "Int64", "hazards_unknown": "Int64", "copies": "Int64", "copied_bytes": "Int64",
    "changed_bytes": "Int64", "async_pageable": "Int64", "async_pageable_bytes": "Int64", "async_unknown": "Int64",
}


def pinned_reuse(recording: TableSource) -> pd.DataFrame:
    """A row a buffer, in order of first appearance in `buffers`, then of buffers known from copies only.

    memory            pinned, pageable, or "mixed" where steps differ; device: the row is about the buffer's device side
    capacity_bytes    the largest that was asked for; reserved_bytes what the allocator locked for it (all slots; the
                      caching host allocator rounds up to a power of two, so this may be nearly twice as much)
    used_*            live bytes of a step's use
    slots, reuse_max  different slots seen, and the highest reuse count
    waits, wait_ns    uses that had to wait for their slot, and the time in total
    hazards_*         uses by verdict; unknown where none was given
    copied_bytes, changed_bytes   over all copies; null where a copy's figure is missing
    async_pageable    asynchronous copies whose host side is pageable memory, hence synchronous in fact
    async_unknown     asynchronous copies whose host memory the source does not name
    A count is null where its table holds nothing of the buffer.
    """
    return gather(recording, lambda process: records(_rows(process), COLUMNS))


def _rows(process: Process) -> list[dict[str, object]]:
    uses, copies = process.rows("buffers"), process.rows("copies")
    names = dict.fromkeys((*uses.coded("buffer")[1], *copies.coded("buffer")[1]))
    rows = []
    for name in names:
        row: dict[str, object] = {"buffer": name}
        mine = uses[uses.matches("buffer", name)]
        moved = copies[copies.matches("buffer", name)]
        row.update(_use_figures(mine) if len(mine) else {})
        row.update(_copy_figures(moved) if len(moved) else {})
        rows.append(row)
    return rows


def _use_figures(uses: Columns) -> dict[str, object]:
    used, has_used = uses.ints("used_bytes")
    slot, has_slot = uses.ints("slot")
    wait, has_wait = uses.ints("wait_ns")
    verdicts = uses.texts("hazard")
    kinds = {kind for kind in uses.texts("memory") if kind is not None}
    return {
        "memory": kinds.pop() if len(kinds) == 1 else "mixed" if kinds else None,
        "capacity_bytes": _largest(uses, "capacity_bytes"), "reserved_bytes": _largest(uses, "reserved_bytes"),
        "used_p50_bytes": median(used[has_used]), "used_max_bytes": _largest(uses, "used_bytes"),
        "slots": len(set(slot[has_slot].tolist())) if has_slot.any() else None, "uses": len(uses),
        "reuse_max": _largest(uses, "reuse_count"),
        "waits": int((wait[has_wait] > 0).sum()) if has_wait.any() else None,
        "wait_ns": total(wait[has_wait]) if has_wait.any() else None,
        **{f"hazards_{verdict}": verdicts.count(verdict) for verdict in ("none", "possible", "observed")},
        "hazards_unknown": verdicts.count(None),
    }


def _largest(rows: Columns, name: str) -> int | None:
    values, valid = rows.ints(name)
    return int(values[valid].max()) if valid.any() else None


def _copy_figures(copies: Columns) -> dict[str, object]:
    size, has_size = copies.ints("size_bytes")
    late = async_pageable(copies)
    return {
        "copies": len(copies), "copied_bytes": _whole_sum(size, has_size),
        "changed_bytes": _whole_sum(*copies.ints("changed_bytes")),
        "async_pageable": int(late.sum()), "async_pageable_bytes": _whole_sum(size[late], has_size[late]),
        "async_unknown": int((copies.flags("is_async", null=False) & ~_host_side_known(copies)).sum()),
    }


def _whole_sum(values: LongArray, valid: BoolArray) -> int | None:
    """The sum, None when one of the values is missing: half a sum is no sum."""
    return total(values) if valid.all() else None


def async_pageable(table: Table) -> BoolArray:
    """Copies that were asked to be asynchronous and cannot be: source (h2d) or destination (d2h) is pageable."""
    copies = columns_of(table)
    from_host = copies.matches("direction", "h2d") & copies.matches("src_kind", "pageable")
    to_host = copies.matches("direction", "d2h") & copies.matches("dst_kind", "pageable")
    return copies.flags("is_async", null=False) & (from_host | to_host)


def _host_side_known(copies: Columns) -> BoolArray:
    known = ("pageable", "pinned", "managed", "device")
    from_host = copies.matches("direction", "h2d") & copies.matches("src_kind", *known)
    to_host = copies.matches("direction", "d2h") & copies.matches("dst_kind", *known)
    return from_host | to_host | copies.matches("direction", "d2d")
