"""Two recordings, or a recording and a capture of the same run, phase by phase and copy by copy.

Two views of one run are judged: they agree within err, or one of them is wrong. Two runs are only laid side by side:
whether a difference between runs is noise is a question for a gate with repetitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..errors import Incomparable
from ..instrumentation.recording.meta import RecordingMeta
from ..instrumentation.recording.schema import CAPTURE_SOURCES
from .compare_copies import CopyPairs, copy_pairs
from .compare_phases import (
    BORDER_NS,
    Containment,
    PairedFigure,
    Verdict,
    clock_offset,
    contained,
    phase_figures,
    step_figures,
)
from .compare_settings import Differing, differing_settings, differing_work
from .compare_steps import StepPairs, match_by_length, match_by_number
from .pace import steps_in_flight
from .tables import Process, TableSource, processes


class Recorded(TableSource, Protocol):
    """A Recording, as far as a comparison needs it."""

    @property
    def meta(self) -> RecordingMeta:
        """The content of recording.json."""
        ...


@dataclass(frozen=True, slots=True)
class Side:
    """Where one side comes from, what it lacks (`RecordingMeta.lacks`), and how many of its steps are on their way at
    once: more than one, and single periods lean on one another (`pace.py`).
    """

    source: str
    device: str
    gpu: str | None
    pid: int | None
    steps: int
    lacks: tuple[str, ...] = ()
    in_flight: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """`same_run`: the two are views of one run and were judged. `clock_offset_ns` takes b's times to a's, with
    `clock_err_ns`; both null for two runs. `notes` are differences between the machines; `settings` and `work` those of
    two runs, before anything is timed. `modelled` by `calibration` are both sides or none."""

    a: Side
    b: Side
    same_run: bool
    steps: StepPairs
    figures: tuple[PairedFigure, ...]
    device_work: tuple[Containment, ...]
    copies: tuple[CopyPairs, ...]
    clock_offset_ns: int | None
    clock_err_ns: int | None
    notes: tuple[str, ...]
    settings: tuple[Differing, ...] = ()
    work: tuple[Differing, ...] = ()
    modelled: bool = False
    calibration: str | None = None

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Everything that was judged."""
        found = [own.verdict for own in self.figures]
        found += [own.verdict for own in self.device_work]
        found += [own.verdict for own in self.copies]
        return tuple(verdict for verdict in found if verdict != "not judged")

    @property
    def agrees(self) -> bool | None:
        """Whether all that was judged agrees; None where nothing was."""
        return all(own == "agrees" for own in self.verdicts) if self.verdicts else None


def compare(a: Recorded, b: Recorded) -> Comparison:
    """The two side by side. Raises Incomparable (exit 5) for what must not be compared: modelled with measured, two
    calibrations, a device with none, sides without steps or with different processes, a capture of another run."""
    notes = _check(a.meta, b.meta)
    first, second = _alone(a, "the first"), _alone(b, "the second")
    same_run = (a.meta.source in CAPTURE_SOURCES) != (b.meta.source in CAPTURE_SOURCES)
    rows = first.rows("steps"), second.rows("steps")
    pairs = match_by_length(*rows) if same_run else match_by_number(*rows)
    err_ns = 2 * BORDER_NS if same_run else None
    why_not = _no_copies(a.meta, b.meta) if same_run else ""
    gap_ns, gap_err_ns = clock_offset(pairs, first, second) if same_run else (None, None)
    work: list[Containment] = []
    if gap_ns is not None and gap_err_ns is not None:
        swapped = a.meta.source in CAPTURE_SOURCES
        turned = StepPairs(pairs.by, pairs.b, pairs.a, pairs.unmatched_b, pairs.unmatched_a) if swapped else pairs
        events, seen = (second, first) if swapped else (first, second)
        work = contained(turned, events, seen, -gap_ns if swapped else gap_ns, gap_err_ns)
    return Comparison(
        a=_side(a.meta, first), b=_side(b.meta, second), same_run=same_run, steps=pairs,
        figures=(*step_figures(pairs, first, second, err_ns), *phase_figures(pairs, first, second, err_ns)),
        device_work=tuple(work), copies=tuple(copy_pairs(pairs, first, second, why_not=why_not)),
        clock_offset_ns=gap_ns, clock_err_ns=gap_err_ns, notes=notes,
        settings=() if same_run else differing_settings(a.meta.configuration, b.meta.configuration),
        work=() if same_run else differing_work(first, second),
        modelled=a.meta.modelled, calibration=a.meta.calibration if a.meta.modelled else None,
    )


def _no_copies(*metas: RecordingMeta) -> str | None:
    """Why the copies of a run and its capture are not judged: the profiler saw no device at all."""
    absent = [set(meta.configuration.get("absent", ())) for meta in metas]
    blind = any({"kernels", "copies"} <= own for own in absent)
    return "the capture holds no work of a device" if blind else None


def _check(a: RecordingMeta, b: RecordingMeta) -> tuple[str, ...]:
    if a.modelled != b.modelled:
        raise Incomparable("one side is modelled and the other is measured; compare a model with its own kind")
    if a.modelled and a.calibration != b.calibration:
        raise Incomparable(f"the two come from different calibrations: {a.calibration} and {b.calibration}")
    if a.has_device != b.has_device and not {a.source, b.source} & set(CAPTURE_SOURCES):
        raise Incomparable("one side ran on the CPU alone, the other on a device; run both on the same kind")
    found = []
    for key in ("gpu_name", "gpu_driver", "cpu_model"):
        first, second = a.environment.get(key), b.environment.get(key)
        if first is not None and second is not None and first != second:
            found.append(f"{key}: {first} and {second}")
    return tuple(found)


def _alone(recording: Recorded, which: str) -> Process:
    """The one process with steps. Helpers of a run (compilers, servers) have none."""
    found = [process for process in processes(recording) if len(process.rows("steps"))]
    if not found:
        raise Incomparable(f"{which} has no steps; a capture needs ranges that mark them: import it with --map")
    if len(found) > 1:
        pids = ", ".join(str(process.keys.get("pid")) for process in found)
        raise Incomparable(f"{which} has {len(found)} processes with steps (pid {pids}); compare one rank at a time")
    return found[0]


def _side(meta: RecordingMeta, process: Process) -> Side:
    pid, gpu = process.keys.get("pid"), meta.environment.get("gpu_name")
    return Side(
        meta.source, meta.device, gpu if isinstance(gpu, str) else None, pid if isinstance(pid, int) else None,
        len(process.rows("steps")), meta.lacks, steps_in_flight(process),
    )
