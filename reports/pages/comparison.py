"""The page of a comparison of two recordings."""

from __future__ import annotations

from ...analysis.compare import Comparison, Side
from ...analysis.compare_copies import CopyPairs
from ...analysis.compare_phases import PairedFigure
from ...analysis.compare_settings import Differing
from ..document import Block, Cell, Column, Document, Missing, Quantity, Section, Words
from ..formatting import count, duration
from ..views.source import calibration_name
from .cells import bytes_column, count_column, number, table, us_column

_NO_TIMES = "not every copy has its times on the device"
_NO_SIZE = "a copy does not tell its size"
_MANY = 20
_FIGURES = {"host_ns": "host", "busy_ns": "device busy", "length": "length", "period": "period"}


def comparison_document(found: Comparison, name: str) -> Document:
    """What was matched, then phases, device work and copies."""
    sections = (_matched(found), _phases(found), *_device_work(found), _copies(found))
    origin, notice = "", ""
    if found.modelled:
        known = found.calibration or "without a name"
        origin = calibration_name(known)
        notice = f"Device times of both come from the queue model with costs of the calibration {known}."
    return Document(name, f"A: {_side(found.a)}; B: {_side(found.b)}", sections, origin, notice)


def _side(side: Side) -> str:
    where = side.gpu or f"device {side.device}"
    return f"source {side.source}, {where}, {count(side.steps)} steps"


def _matched(found: Comparison) -> Section:
    how = {
        "number": "by their numbers", "length": "in order, by their lengths",
    }[found.steps.by]  # fmt: skip
    blocks: list[Block] = [Words(_verdict(found), emphasis=True), *_apart(found)]
    blocks.append(Words(f"{count(len(found.steps))} pairs of steps, matched {how}. {_unmatched(found)}"))
    if found.clock_err_ns is not None:
        blocks.append(Words(
            f"The clocks are matched by the starts of the steps; nine of ten lie within {duration(found.clock_err_ns)}."
        ))  # fmt: skip
    blocks += [
        Words(f"{name} is not whole: {reason}.", emphasis=True)
        for name, side in (("A", found.a), ("B", found.b)) for reason in side.lacks
    ]  # fmt: skip
    blocks += [
        Words(
            f"In {name} {count(side.in_flight)} steps are on their way at once, so a single period is no step's time:"
            " perf report tells the pace."
        )
        for name, side in (("A", found.a), ("B", found.b)) if side.in_flight > 1
    ]  # fmt: skip
    blocks += [Words(f"The two differ in {note}.") for note in found.notes]
    return Section("matched", "What is compared", tuple(blocks), brief=True)


def _apart(found: Comparison) -> list[Block]:
    """What differs before anything is timed: the work as a warning, then the parameters."""
    blocks: list[Block] = []
    if found.work:
        blocks.append(Words(
            "Warning: A and B did different work in their steps, or did it by other calls: a difference between their"
            " times is that of the work first of all.", emphasis=True,
        ))  # fmt: skip
        blocks.append(_differing("Work of a step", "figure", found.work))
    if found.settings:
        blocks.append(_differing("Parameters that differ", "parameter", found.settings))
    return blocks


def _differing(title: str, what: str, found: tuple[Differing, ...]) -> Block:
    rows: list[tuple[Cell, ...]] = [
        (own.name, *(Missing("this side has none") if side is None else side for side in (own.a, own.b)))
        for own in found
    ]  # fmt: skip
    return table(title, (Column(what), Column("A"), Column("B")), rows)


def _verdict(found: Comparison) -> str:
    if not found.same_run:
        return "Two runs, side by side: whether a difference is more than noise takes repetitions, and is not judged."
    if found.agrees is None:
        return "Nothing that both sides recorded could be judged."
    wrong = sum(own == "differs" for own in found.verdicts)
    told = f"{len(found.verdicts) - wrong} of {len(found.verdicts)} figures agree within err."
    return f"Two views of one run{', and they differ' if wrong else ''}: {told}"


def _unmatched(found: Comparison) -> str:
    texts = [
        f"Without a partner in {other}: {own} {_listed(numbers)}."
        for own, other, numbers in (
            ("A's", "B", found.steps.unmatched_a), ("B's", "A", found.steps.unmatched_b)
        ) if numbers
    ]  # fmt: skip
    if found.steps.left_out:
        texts.append(f"Left out, as warm-up or incomplete on either side: {count(found.steps.left_out)}.")
    return " ".join(texts) or "None is without a partner."


def _listed(numbers: tuple[int, ...]) -> str:
    shown = ", ".join(str(number) for number in numbers[:_MANY])
    rest = f" and {count(len(numbers) - _MANY)} more" if len(numbers) > _MANY else ""
    return f"step{'s' if len(numbers) > 1 else ''} {shown}{rest}"


def _phases(found: Comparison) -> Section:
    columns = (
        Column("phase"), Column("time"), Column("verdict"), count_column("pairs"), us_column("A, median"),
        us_column("B, median"), us_column("B - A, median"), us_column("p10"), us_column("p90"), us_column("err"),
        count_column("within err"),
    )  # fmt: skip
    rows = [_phase(own) for own in found.figures if own.n]
    note = "Host and device time overlap and are never added up. The err of a host time is what a profiled range costs."
    blocks: list[Block] = [table("Pair by pair", columns, rows, note=note)]
    alone = [f"{_FIGURES.get(own.figure, own.figure)} of {own.name}" for own in found.figures if not own.n]
    if alone:
        blocks.append(Words(f"Not recorded on both sides: {', '.join(alone)}."))
    return Section("phases", "Steps and phases", tuple(blocks), brief=True)


def _phase(own: PairedFigure) -> tuple[Cell, ...]:
    why = own.reason or "not recorded on both sides"
    unjudged = "two runs, or a figure that both sides define differently"
    return (
        own.name, _FIGURES.get(own.figure, own.figure), own.verdict, Quantity(own.n, "count"),
        number(own.a_p50_ns, "ns", why), number(own.b_p50_ns, "ns", why), number(own.delta_p50_ns, "ns", why),
        number(own.delta_p10_ns, "ns", why), number(own.delta_p90_ns, "ns", why), number(own.err_ns, "ns", unjudged),
        number(own.within, "count", unjudged),
    )  # fmt: skip


def _device_work(found: Comparison) -> tuple[Section, ...]:
    if not found.same_run:
        return ()
    columns = (
        Column("phase"), count_column("steps"), count_column("inside"), us_column("err, median"),
        us_column("outside by at most"), Column("verdict"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            own.name, Quantity(own.n, "count"), Quantity(own.inside, "count"), number(own.err_p50_ns, "ns"),
            number(own.worst_ns, "ns"), own.verdict,
        )
        for own in found.device_work
    ]  # fmt: skip
    words = Words("No phase has a span between events on one side and device work on the other.")
    note = "What the profiler saw of a phase, inside the span between the phase's events; negative: inside by that."
    block: Block = table("Device work of the phases", columns, rows, note=note) if rows else words
    return (Section("device", "Device work", (block,), brief=True),)


def _copies(found: Comparison) -> Section:
    if not found.copies:
        return Section("copies", "Copies", (Words("No copy lies in the matched steps."),), brief=True)
    columns = (
        Column("direction"), Column("from"), Column("to"), Column("verdict"), count_column("A"), count_column("B"),
        bytes_column("A, size"), bytes_column("B, size"), us_column("A, summed"), us_column("B, summed"),
        count_column("timed"), count_column("equally long"),
    )  # fmt: skip
    rows = [_copy(own) for own in found.copies]
    return Section("copies", "Copies", (table("Copies of the matched steps", columns, rows),), brief=True)


def _copy(own: CopyPairs) -> tuple[Cell, ...]:
    verdict = f"{own.verdict}: {own.reason}" if own.reason else own.verdict
    timed: tuple[Cell, ...] = (Quantity(own.timed, "count"), Quantity(own.within, "count"))
    if not own.timed:
        timed = (Quantity(0, "count"), Missing(_NO_TIMES))
    return (
        own.direction, own.src_kind, own.dst_kind, verdict, Quantity(own.a_copies, "count"),
        Quantity(own.b_copies, "count"), number(own.a_bytes, "bytes", _NO_SIZE if own.a_copies else "no copies"),
        number(own.b_bytes, "bytes", _NO_SIZE if own.b_copies else "no copies"),
        number(own.a_ns, "ns", _NO_TIMES), number(own.b_ns, "ns", _NO_TIMES), *timed,
    )  # fmt: skip
