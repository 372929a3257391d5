"""The page of an imported capture."""

from __future__ import annotations

from ...analysis.captures.figures import CaptureFigures
from ..document import Block, Cell, Column, Document, Facts, Quantity, Section, Words
from ..formatting import counted
from ..views.timeline import StepTimeline
from .capture_copies import copies_section, pageable_section
from .capture_devices import devices_section, gaps_section
from .capture_headline import headline_section
from .capture_host import graphs_section, names_section, queue_section, ranges_section, syncs_section
from .capture_many import ROWS_OF_A_PAGE, ROWS_OF_A_TERMINAL, bounded
from .capture_steps import phases_section, steps_section
from .capture_timeline import capture_timeline_section
from .capture_verdict import verdict_section
from .cells import count_column, number, percent_column, table

_NOTHING = "the capture holds nothing of the kind"
SOURCES = {"nsys": "Nsight Systems", "kineto": "PyTorch profiler"}


def capture_document(
    figures: CaptureFigures, name: str, timelines: tuple[StepTimeline, ...] = ()
) -> Document:  # fmt: skip
    """All sections: answers, what the devices did, what the host did meanwhile, what the figures rest on."""
    if not figures.devices and not figures.calls:
        return Document(name, _subtitle(figures), _host_only(figures, timelines))
    sections = (
        verdict_section(figures), headline_section(figures), *capture_timeline_section(timelines),
        devices_section(figures), gaps_section(figures), copies_section(figures), pageable_section(figures),
        phases_section(figures), steps_section(figures), syncs_section(figures), graphs_section(figures),
        queue_section(figures), ranges_section(figures), names_section(figures), _coverage(figures), _about(figures),
    )
    return Document(name, _subtitle(figures), bounded(sections, ROWS_OF_A_PAGE))


def capture_summary(figures: CaptureFigures, name: str) -> Document:
    """What fits on a terminal: sections without a row for every step, range and kernel."""
    if not figures.devices and not figures.calls:
        return Document(name, _subtitle(figures), _host_only(figures, ()))
    sections = (
        verdict_section(figures), headline_section(figures), devices_section(figures), copies_section(figures),
        pageable_section(figures), graphs_section(figures), phases_section(figures),
        syncs_section(figures), _coverage(figures),
    )
    return Document(name, _subtitle(figures), bounded(sections, ROWS_OF_A_TERMINAL))


def capture_in_short(figures: CaptureFigures, name: str) -> Document:
    """The answers, and what cannot be said: the tables stand on the page."""
    answers = (headline_section(figures),) if figures.devices or figures.calls else ()
    coverage = _coverage(figures)
    unsaid = (Section(coverage.id, "What cannot be said", coverage.blocks[1:], brief=True),)
    sections = (verdict_section(figures), *answers, *(unsaid if figures.cannot_say else ()))
    return Document(name, _subtitle(figures), sections)


def _host_only(figures: CaptureFigures, timelines: tuple[StepTimeline, ...]) -> tuple[Section, ...]:
    """Of a capture with ranges and nothing else: no section that could say no more than that."""
    return (
        verdict_section(figures), *capture_timeline_section(timelines), steps_section(figures),
        ranges_section(figures), _coverage(figures), _about(figures),
    )  # fmt: skip


def _subtitle(figures: CaptureFigures) -> str:
    gpu = figures.environment.get("gpu_name")
    version = figures.facts.get("product_version") or figures.facts.get("schema_version")
    source = SOURCES.get(figures.source, figures.source)
    parts = [f"captured with {source}{f' {version}' if version else ''}", str(gpu) if gpu else "GPU not named"]
    if figures.steps_from:
        steps = len(figures.steps.drop_duplicates(["pid", "rank", "step"]))
        inferred = figures.steps_from == "inferred"
        how = "inferred from ranges that repeat" if inferred else f"marked by {figures.steps_from}"
        parts.append(f"{counted(steps, 'step')}, {how}")
    return ", ".join(parts)


def _coverage(figures: CaptureFigures) -> Section:
    """What the figures rest on, and what cannot be said."""
    columns = (Column("share of"), count_column("covered"), count_column("of"), percent_column("share"))
    rows: list[tuple[Cell, ...]] = [
        (own.what, Quantity(own.covered, "count"), Quantity(own.of, "count"), number(own.share, "fraction", _NOTHING))
        for own in figures.coverage
    ]
    blocks: list[Block] = [table("What the figures rest on", columns, rows)]
    if figures.cannot_say:
        unsaid = [(own.question, own.because) for own in figures.cannot_say]
        blocks.append(table("Cannot say, because", (Column("what"), Column("because")), unsaid))
    return Section("coverage", "Coverage, and what cannot be said", tuple(blocks), brief=True, nav="Coverage")


def _about(figures: CaptureFigures) -> Section:
    plain = {key: value for key, value in figures.facts.items() if not isinstance(value, dict)}
    items = tuple((key, str(value)) for key, value in sorted({**plain, **figures.environment}.items()))
    blocks: tuple[Block, ...] = (Facts("What the file says of itself", items),) if items else (Words("Nothing."),)
    return Section("about", "The capture", blocks)
