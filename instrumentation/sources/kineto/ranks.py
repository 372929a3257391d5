"""A file that was merged from the traces of several ranks, taken apart again.

Correlation ids count within a process: in a merged file every rank has a call 7 and a kernel 7 of its own. Such a file
is known by calls of several process ids that carry the same correlation ids, or labels ("[TP01] 251").

    host rows   belong to the process of their pid
    GPU work    its pid is a GPU's row: of the process with the same label, else of the one process whose calls have the
                ids that no other one has; where all ids are of several processes nobody can tell
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays import LongArray
from ..merging import merge_traces
from ..trace import CALLS, CapturedProcess, CopyRows, DeviceRows, HostRows, Note, Trace
from .collect import Collector

_LABELLED = re.compile(r"(.*?\D)?(\d{1,9})", re.DOTALL)
_NUMBER = re.compile(r"\D*(\d{1,6})\D*", re.DOTALL)
_MANY = 16_384
"""Two rows a rank (its threads', its GPU's) of some thousand ranks. More pids than that are damaged ones."""
_CLEAR = 0.9
_UNTOLD = Note(
    "spans", "correlation",
    "several processes of this file have calls with the same correlation ids: which of them launched the work of "
    "some GPU rows it does not tell, so no call is tied to it; import the files of the ranks one by one",
)  # fmt: skip

Pid = int | str | None


def may_be_merged(collector: Collector) -> bool:
    """Whether the pids that were seen are not those of one process: a negative one is the profiler's own row."""
    return sum(pid >= 0 for pid in collector.pids) != 1


class ByPid:
    """A collector for each pid of a file. `parts` is empty where there are too many of them."""

    def __init__(self) -> None:
        self.parts: dict[Pid, Collector] = {}
        self._too_many = False

    def take(self, events: Sequence[Any]) -> None:
        """Hand each event to the collector of its pid."""
        found: dict[Pid, list[Any]] = {}
        for event in events:
            found.setdefault(getattr(event, "pid", None), []).append(event)
        self._too_many = self._too_many or len(self.parts.keys() | found.keys()) > _MANY
        for pid, own in () if self._too_many else found.items():
            self.parts.setdefault(pid, Collector()).take(own)

    def processes(self, whole: Trace) -> Trace | None:
        """`whole`, the same file read as one process, with its rows by process; None where it holds only one."""
        if self._too_many:
            return None
        for part in self.parts.values():
            part.finish()
        pids = tuple(self.parts)
        told = [_Part.of(pid, self.parts[pid]) for pid in pids]
        owners = _owners(told)
        if owners is None:
            return None
        merged = merge_traces([_trace(whole, self.parts[pid]) for pid in pids])
        return _placed(whole, merged, told, owners)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """What decides whose the rows of a pid are. `calls` and `work` are correlation ids, sorted, each once."""

    owner: str
    label: str | None
    pid: int | None
    calls: LongArray
    work: LongArray

    @classmethod
    def of(cls, pid: Pid, rows: Collector) -> _Part:
        match = _LABELLED.fullmatch(pid) if isinstance(pid, str) else None
        label = match[1] if match else None
        host, device, copies = rows.host(), rows.device(), rows.copies()
        return cls(
            owner=str(pid) if label is None else label, label=label, pid=_number(int(match[2]) if match else pid),
            calls=_ids(host.correlation[np.isin(host.kind, CALLS)]),
            work=_ids(np.concatenate((device.correlation, copies.correlation))),
        )  # fmt: skip


def _number(pid: Pid) -> int | None:
    return pid if isinstance(pid, int) and 0 <= pid < 1 << 31 else None


def _ids(correlation: LongArray) -> LongArray:
    return np.unique(correlation[correlation > 0])


def _owners(parts: Sequence[_Part]) -> dict[str, LongArray] | None:
    """Processes and the ids of their calls; None where the file is that of one process."""
    found: dict[str, LongArray] = {}
    for part in parts:
        if len(part.calls):
            found[part.owner] = np.union1d(found[part.owner], part.calls) if part.owner in found else part.calls
    labels = {part.label for part in parts if part.label is not None and len(part.calls)}
    ids = np.concatenate([*found.values(), np.zeros(0, dtype=np.int64)])
    if len(found) < 2 or (len(labels) < 2 and len(np.unique(ids)) == len(ids)):
        return None
    return found


class _IdsOfOne:
    """Correlation ids that the calls of one process have and of no other, with its place among the owners."""

    def __init__(self, owners: Mapping[str, LongArray]) -> None:
        ids = np.concatenate(list(owners.values()))
        owner = np.repeat(np.arange(len(owners)), [len(calls) for calls in owners.values()])
        found, first, counts = np.unique(ids, return_index=True, return_counts=True)
        self._ids, self._owner, self._count = found[counts == 1], owner[first[counts == 1]], len(owners)

    def votes(self, ids: LongArray) -> LongArray:
        """How many of the ids belong to each owner alone."""
        owner = self._owner[np.isin(self._ids, ids, assume_unique=True)]
        return np.bincount(owner, minlength=self._count)


def _launcher(part: _Part, owners: Mapping[str, LongArray], ids: _IdsOfOne) -> str | None:
    """Whose calls launched the work of a GPU's row; None where the ids do not tell."""
    if part.owner in owners:
        return part.owner
    votes = ids.votes(part.work)
    best = int(votes.argmax())
    return tuple(owners)[best] if votes[best] and votes[best] >= _CLEAR * votes.sum() else None


def _trace(whole: Trace, rows: Collector) -> Trace:
    return replace(
        whole, devices=rows.devices.texts(), names=rows.names.texts(), host=rows.host(), device=rows.device(),
        copies=rows.copies(), notes=(), facts={},
    )


def _placed(whole: Trace, merged: Trace, parts: Sequence[_Part], owners: Mapping[str, LongArray]) -> Trace:
    """The rows of each part with the place of their process; rows without one belong to a last, nameless one."""
    listed = sorted(owners)
    lost = len(listed)
    places = {owner: place for place, owner in enumerate(listed)}
    of_host = np.array([places.get(part.owner, lost) for part in parts], dtype=np.int64)
    ids = _IdsOfOne(owners)
    launchers = [_launcher(part, owners, ids) if len(part.work) else None for part in parts]
    of_work = np.array([lost if own is None else places[own] for own in launchers], dtype=np.int64)
    untold = any(own is None and len(part.work) for own, part in zip(launchers, parts, strict=True))
    host: HostRows = replace(merged.host, process=of_host[merged.host.process])
    device: DeviceRows = replace(merged.device, process=of_work[merged.device.process])
    copies: CopyRows = replace(merged.copies, process=of_work[merged.copies.process])
    some_lost = any((rows.process == lost).any() for rows in (host, device, copies))
    processes = (*_processes(listed, parts), *((CapturedProcess(host="not told"),) if some_lost else ()))
    return replace(
        whole, processes=processes, devices=merged.devices, names=merged.names, host=host, device=device,
        copies=copies, notes=(*whole.notes, *((_UNTOLD,) if untold else ())),
        facts={**whole.facts, "merged_processes": len(listed)},
    )


def _processes(owners: Sequence[str], parts: Sequence[_Part]) -> list[CapturedProcess]:
    """A label with one number ("[TP01] ") tells the rank, where each has another."""
    callers = {part.owner: part for part in reversed(parts) if len(part.calls)}
    ranks = [_rank(callers[owner].label) for owner in owners]
    distinct = None not in ranks and len(set(ranks)) == len(ranks)
    found = [
        CapturedProcess(pid=callers[owner].pid, rank=rank if distinct else None)
        for owner, rank in zip(owners, ranks, strict=True)
    ]
    if len(set(found)) == len(found):
        return found
    return [replace(own, host=f"process {number}") for number, own in enumerate(found, start=1)]


def _rank(label: str | None) -> int | None:
    match = _NUMBER.fullmatch(label) if label is not None else None
    return int(match[1]) if match else None
