"""Which copies bring the block tables to the device: that depends on how a runner commits them.

    block_table, block_table.1, ..   whole rows, a buffer a KV cache group (`full`, and `dirty_rows` in bulk)
    block_rows                       changed rows of all groups (`dirty_rows`)
    block_diffs                      new ids of all groups (`staged`)
"""

from __future__ import annotations

import numpy as np

from .tables import TableSource, processes

BLOCK_TABLE = "block_table"
_FAMILY = (BLOCK_TABLE, "block_rows", "block_diffs")


def brings_tables(buffer: str) -> bool:
    """Whether copies of this buffer bring block tables: `block_table.1` does, `positions` does not."""
    return buffer.split(".")[0] in _FAMILY


def table_buffers(recording: TableSource) -> dict[str, int]:
    """Buffers that brought block tables in counted steps and how many copies each had, most first; equal ones by name.

        18 copies of block_rows, 2 of block_table, 20 of positions -> {"block_rows": 18, "block_table": 2}
    """
    counts: dict[str, int] = {}
    for process in processes(recording):
        rows = process.counted("copies")
        codes, names = rows[~rows.matches("direction", "d2h")].coded("buffer")
        for code, name in enumerate(names):
            found = int(np.count_nonzero(codes == code)) if brings_tables(name) else 0
            if found:
                counts[name] = counts.get(name, 0) + found
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0] != BLOCK_TABLE, item[0])))


def table_buffer(recording: TableSource) -> str:
    """The buffer that speaks for the block-table copy: the one with most copies; `block_table` where nothing says."""
    return next(iter(table_buffers(recording)), BLOCK_TABLE)
