"""The head of a capture's page: four questions, each answered with the share of the capture that it rests on."""

from __future__ import annotations

from ...analysis.captures.copies import CopyFigures, HiddenFigures
from ...analysis.captures.coverage import EVERYTHING
from ...analysis.captures.devices import DeviceFigures
from ...analysis.captures.figures import CaptureFigures
from ..document import Answer, Cell, Missing, Quantity, Section
from ..formatting import count, counted, duration, percent, size
from .capture_basis import CALLS, COPY_CALLS, KINDS, NOT_ALL, covered, why_not
from .capture_copies import blocked
from .capture_many import FEW, idle_words
from .cells import number

QUESTIONS = (
    "How busy were the devices?",
    "Which copies reached the devices, and what hid them?",
    "Why did the devices idle?",
    "Where did the host wait?",
)
_EVERY = "every row with usable times"


def headline_section(figures: CaptureFigures) -> Section:
    """One card a question; one without an answer says why."""
    made = (_busy(figures), _copies(figures), _idle(figures), _waits(figures))
    answers = tuple(Answer(QUESTIONS[n], words, cells, href) for n, (words, cells, href) in enumerate(made))
    return Section("headline", "Four questions", answers, brief=True, nav="Questions")


_Made = tuple[str, tuple[tuple[str, Cell], ...], str]


def _busy(figures: CaptureFigures) -> _Made:
    if not figures.devices:
        return f"Cannot say: {why_not(figures, 'busy', 'nothing ran on a device')}.", (), "#devices"
    few = len(figures.devices) <= FEW
    words = " ".join(_idled(own) for own in figures.devices if own.window_ns) if few else idle_words(figures.devices)
    if any(own.graph_replays for own in figures.devices):
        words += " Replays of whole graphs count as busy."
    rows = sum(
        sum(number or 0 for number in (own.kernels, own.graph_replays, own.memsets, own.copies))
        for own in figures.devices
    )
    kernels = [own.kernels for own in figures.devices if own.kernels is not None]
    copies = [own.copies for own in figures.devices if own.copies is not None]
    unseen = next((own.unseen for own in figures.devices if own.unseen), None)
    cells: tuple[tuple[str, Cell], ...] = (
        ("kernels", number(sum(kernels) if kernels else None, "count", unseen)),
        ("graph launches", _graph_launches(figures)),
        ("copies", number(sum(copies) if copies else None, "count", figures.lacks.copies or unseen)),
        ("rests on", "; ".join((f"{_EVERY}: {count(rows)}", *_lost(figures)))),
    )
    return words, cells, "#devices"


def _graph_launches(figures: CaptureFigures) -> Cell:
    """How many there are, and what the capture holds of their work: kernels, rows that stand for a graph, or both."""
    launches = sum(own.launches or 0 for own in figures.graphs)
    kernels = sum(own.kernels or 0 for own in figures.graphs)
    whole = sum(own.graph_replays or 0 for own in figures.devices)
    if not launches and (kernels or whole):
        told = f"{count(whole)} replays of whole graphs" + (f", {count(kernels)} kernels of graphs" if kernels else "")
        return f"calls not recorded; {told}"
    if figures.lacks.calls is not None:
        return Missing(figures.lacks.calls)
    parts = [f"{count(kernels)} kernels recorded one by one"] if kernels else []
    parts += [f"{count(whole)} replays recorded whole"] if whole else []
    return f"{count(launches)} ({', '.join(parts)})" if parts else Quantity(launches, "count")


def _lost(figures: CaptureFigures) -> list[str]:
    """What the profiler says of events of the devices that may be missing."""
    return [own.because for own in figures.cannot_say if own.question == EVERYTHING and "CUDA" in own.because]


def _idled(own: DeviceFigures) -> str:
    if own.idle_ns is None:
        return f"{device_words(own.device, own.rank)}: cannot say, because {own.unseen}."
    share = percent(own.idle_ns / own.window_ns)
    return f"{device_words(own.device, own.rank)} idled {share} of {duration(own.window_ns)}."


def device_words(device: str, rank: int | None) -> str:
    """ "Device 0", or "Device 0 of rank 3"."""
    return f"Device {device}" + (f" of rank {rank}" if rank is not None else "")


def _copies(figures: CaptureFigures) -> _Made:
    if not figures.hidden:
        lacks = figures.lacks.copies or figures.lacks.directions
        if figures.devices and lacks is None:
            which = "copies, and none of them to a device" if figures.copies else "no copies"
            return f"None: the capture has {which}.", (), "#copies"
        why = lacks or why_not(figures, "copies and what", "the capture has no copies to a device")
        return f"Cannot say: {why}.", (), "#copies"
    inwards = [own for own in figures.copies if own.direction == "h2d"]
    few = len(figures.hidden) <= FEW
    words = f"{_by_kind(inwards)}. {' '.join(_hidden(own, figures) for own in figures.hidden) if few else ''}".strip()
    host = [own.under_index_building_ns for own in figures.hidden if own.under_index_building_ns is not None]
    cells = (
        ("under kernels", _under_kernels(figures.hidden)),
        ("under index building", number(sum(host) if host else None, "ns", "no such range was recorded")),
        ("exposed", Missing(figures.hidden[0].exposed_reason)),
        ("rests on", covered(figures, KINDS) or covered(figures, COPY_CALLS)),
    )
    return words, cells, "#copies"


def _under_kernels(hidden: tuple[HiddenFigures, ...]) -> Cell:
    known = [own.under_kernels_ns for own in hidden if own.under_kernels_ns is not None]
    return Quantity(sum(known), "ns") if len(known) == len(hidden) else Missing(NOT_ALL)


def _by_kind(copies: list[CopyFigures]) -> str:
    """ "446 copies of pinned memory (47.4 GiB), 4 of pageable memory (3.06 KiB)"."""
    kinds: dict[str, list[CopyFigures]] = {}
    for own in copies:
        kinds.setdefault(own.src_kind, []).append(own)
    texts: list[str] = []
    for kind, found in sorted(kinds.items(), key=lambda item: -sum(own.copies for own in item[1])):
        sizes = [own.size_bytes for own in found]
        told = f" ({size(sum(known for known in sizes if known is not None))})" if None not in sizes else ""
        rows = sum(own.copies for own in found)
        number_ = count(rows) if texts else counted(rows, "copy", "copies")
        texts.append(f"{number_} of {kind} memory{told}")
    return ", ".join(texts)


def _hidden(own: HiddenFigures, figures: CaptureFigures) -> str:
    device = next((d for d in figures.devices if (d.device, d.rank) == (own.device, own.rank)), None)
    of = f"{percent(own.union_ns / device.window_ns)} of its window" if device and device.window_ns else "its copies"
    told = f"{device_words(own.device, own.rank)}: {duration(own.union_ns)}, {of}; "
    if own.under_kernels_ns is None:
        return f"{told}how much of that under kernels cannot be said."
    under = percent(own.under_kernels_ns / own.union_ns) if own.union_ns else "none"
    return f"{told}{under} of that under kernels."


def _idle(figures: CaptureFigures) -> _Made:
    gaps = [own for own in figures.gaps if own.gaps]
    if not figures.devices:
        return f"Cannot say: {why_not(figures, 'busy', 'nothing ran on a device')}.", (), "#gaps"
    if not gaps:
        why = next((own.unseen for own in figures.devices if own.unseen), None)
        return (f"Cannot say whether they did: {why}." if why else "They did not."), (), "#gaps"
    idle, known = sum(own.idle_ns for own in gaps), sum(own.late_known_ns for own in gaps)
    late = sum(own.late_ns or 0 for own in gaps)
    named = [share for own in gaps for share in own.host if share.name]
    host = max(named, key=lambda share: share.idle_ns, default=None)
    words = (
        f"In {percent(late / known)} of the idle time whose next call is known, that call had not been made yet."
        if known else "Whether the host was late cannot be said: the calls behind the work were not recorded."
    )
    if host is not None:
        words += f" Most often the launching thread was in {host.name}."
    cells = (
        ("idle", Quantity(idle, "ns")), ("whose next call is known", Quantity(known, "ns")),
        ("not asked for yet", number(late if known else None, "ns", "no call behind the work was recorded")),
        ("rests on", covered(figures, CALLS)),
    )  # fmt: skip
    return words, cells, "#gaps"


def _waits(figures: CaptureFigures) -> _Made:
    own = figures.pageable
    if figures.syncs is None:
        why = figures.lacks.calls or why_not(figures, "calls did", "calls have no names")
        return f"Cannot say: {why}.", (), "#syncs"
    longest = max(figures.syncs, key=lambda sync: sync.total_ns, default=None)
    parts = [blocked(own)]
    if longest is not None:
        where = f"under {longest.range}" if longest.range else "" if figures.lacks.places else "outside ranges"
        parts.append(
            f"The longest waits: {counted(longest.calls, 'call')} of {' '.join((longest.call, where)).strip()}, "
            f"{duration(longest.total_ns)}{' together' if longest.calls > 1 else ''}."
        )
    cells = (
        ("waiting calls", Quantity(sum(sync.calls for sync in figures.syncs), "count")),
        ("in them", Quantity(sum(sync.total_ns for sync in figures.syncs), "ns")),
        ("like .item()", _items(figures)),
        ("rests on", covered(figures, COPY_CALLS) or "the calls that were recorded"),
    )
    return " ".join(parts), cells, "#pageable"


def _items(figures: CaptureFigures) -> Cell:
    known = [sync.item_like for sync in figures.syncs or ()]
    return number(None if None in known else sum(own or 0 for own in known), "count", figures.lacks.items)
