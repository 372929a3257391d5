"""A part of a capture: one device's work, or one rank's, and what the processes behind it did on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...errors import UsageError
from ...instrumentation.sources.arrays import BoolArray
from .rows import ProcessKey, Tables, processes_of, rows_of

_TABLES = ("spans", "copies", "steps", "phases")
_WITH_DEVICES = ("spans", "copies", "phases")


@dataclass(frozen=True, slots=True)
class Selection:
    """`device` as the column names it, `rank` as the capture numbers it; None: all. Host rows belong to a process, not
    to a device: those of every process that has work on the device are kept.
    """

    device: str | None = None
    rank: int | None = None

    def __bool__(self) -> bool:
        return self != Selection()

    def __str__(self) -> str:
        parts = {"rank": self.rank, "device": self.device}
        return ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)

    def of(self, tables: Tables) -> Tables:
        """`tables`, those of a Capture or a Recording, without the rows of others. Raises UsageError that names what
        there is, where nothing is left.
        """
        chosen = self.whole(tables)
        if self.device is None:
            return chosen
        kept = {
            name: _is_device(chosen, name, self.device) | _is_device(chosen, name, None) for name in _WITH_DEVICES
        }
        return _filtered(chosen, kept)

    def whole(self, tables: Tables) -> Tables:
        """`tables` with all that the processes did which `of` keeps, on other devices as well: only that tells whether
        their calls left no work. Raises UsageError as `of` does.
        """
        keys, process = processes_of(tables, _TABLES)
        kept = {name: self._of_rank(keys)[process[name]] for name in _TABLES}
        if self.rank is not None and not any(mask.any() for mask in kept.values()):
            raise UsageError(f"--rank {self.rank}: is not in this capture; {_there('rank', _ranks(keys))}")
        if self.device is None:
            return _filtered(tables, kept)
        able = np.zeros(len(keys), dtype=np.bool_)
        for name in ("spans", "copies"):
            able[process[name][kept[name] & _is_device(tables, name, self.device)]] = True
        if not able.any():
            there = {text for name in ("spans", "copies") for text in _devices(tables, name, kept[name])}
            raise UsageError(f"--device {self.device}: {self._where} has no work on it; {_there('device', there)}")
        return _filtered(tables, {name: kept[name] & able[process[name]] for name in _TABLES})

    @property
    def _where(self) -> str:
        return "this capture" if self.rank is None else f"rank {self.rank} of this capture"

    def _of_rank(self, keys: tuple[ProcessKey, ...]) -> BoolArray:
        return np.array([self.rank in (None, key.rank) for key in keys], dtype=np.bool_)


ALL = Selection()


def _is_device(tables: Tables, name: str, device: str | None) -> BoolArray:
    """[rows] whether a row is of `device`; None: of the host."""
    codes, names = rows_of(tables[name]).coded("device")
    own = [-1] if device is None else [code for code, text in enumerate(names) if text == device]
    return np.isin(codes, own)


def _devices(tables: Tables, name: str, kept: BoolArray) -> list[str]:
    codes, names = rows_of(tables[name]).coded("device")
    return [names[code] for code in np.unique(codes[kept]) if code >= 0]


def _filtered(tables: Tables, kept: dict[str, BoolArray]) -> Tables:
    found = dict(tables)
    for name, mask in kept.items():
        table = tables[name]
        found[name] = table.filter(pa.array(mask)) if isinstance(table, pa.Table) else table[mask]
    return found


def _ranks(keys: tuple[ProcessKey, ...]) -> set[int]:
    return {key.rank for key in keys if key.rank is not None}


def _there(what: str, values: set[int] | set[str]) -> str:
    """What could have been asked for."""
    return f"it has {what} {', '.join(map(str, sorted(values)))}" if values else f"it names no {what}"
