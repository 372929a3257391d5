"""nsys' own numbering of copies and memories. The file's ENUM tables come first; constants stand in for what they lack.

nsys numbers memory kinds from 0 = pageable; CUPTI, below it, from 1: a reader that mixes them up calls pinned pageable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ..arrays import LongArray, filled
from ..trace import DIRECTIONS, MEMORIES, UNKNOWN
from .database import Database

MEMORY_KINDS = dict(enumerate((
    "pageable", "pinned", "device", "array", "managed", "device_static", "managed_static", "unknown",
)))  # fmt: skip
COPY_KINDS = dict(enumerate(DIRECTIONS))


def memory_kinds(database: Database) -> dict[int, str]:
    """Number → one of MEMORIES, as this file counts."""
    return _numbering(database, "ENUM_CUDA_MEM_KIND", "CUDA_MEMOPR_MEMORY_KIND_", _memory, MEMORY_KINDS)


def copy_kinds(database: Database) -> dict[int, str]:
    """Number → one of DIRECTIONS, as this file counts."""
    return _numbering(database, "ENUM_CUDA_MEMCPY_OPER", "CUDA_MEMCPY_KIND_", _direction, COPY_KINDS)


def coded(values: LongArray, meaning: Mapping[int, str], codes: tuple[str, ...]) -> LongArray:
    """The file's numbers as places in `codes`; UNKNOWN for a null or a number that has no meaning."""
    found = filled(len(values), UNKNOWN)
    for number, text in meaning.items():
        found[values == number] = codes.index(text)
    return found


def _numbering(
    database: Database, table: str, prefix: str, read: Callable[[str], str], constants: Mapping[int, str]
) -> dict[int, str]:
    """The table's numbers; the constants fill in where they do not contradict what the table has."""
    own: dict[int, str] = {}
    for number, name, label in database.rows(table, "id", "name", "label"):
        text = name.removeprefix(prefix) if isinstance(name, str) else label
        if isinstance(number, int):
            own[number] = read(text if isinstance(text, str) else "")
    agrees = all(constants.get(number) == meaning for number, meaning in own.items())
    return {**(constants if agrees else {}), **own}


def _memory(text: str) -> str:
    """PAGEABLE or "Device Static" → pageable, device_static."""
    found = text.strip().lower().replace(" ", "_")
    return found if found in MEMORIES else MEMORIES[UNKNOWN]


def _direction(text: str) -> str:
    """HTOD, UVM_HTOD or "Host-to-Device" → h2d, unified_h2d, h2d."""
    words = re.fullmatch(r"(uvm_|unified )?([hdap])(?:ost|evice|rray|eer)?-?to-?([hdap])\w*", text.strip().lower())
    found = f"{'unified_' if words[1] else ''}{words[2]}2{words[3]}" if words else ""
    return found if found in DIRECTIONS else DIRECTIONS[UNKNOWN]
