"""Section: the timeline of chosen steps of a capture, or of the surroundings of its longest gap."""

from __future__ import annotations

import dataclasses

from ..document import Block, Chart, Figure, Section, Words
from ..figures.timeline import timeline_figure
from ..formatting import duration
from ..views.timeline import StepTimeline
from .timeline import zoom_hint

_COLOURS = " Ranges and kernels have the colour of their phase. Pale: device work of another step."


def capture_timeline_section(timelines: tuple[StepTimeline, ...]) -> tuple[Section, ...]:
    """The chart with its choice of windows; no section without one."""
    if not timelines:
        return ()
    choices = []
    for line in timelines:
        is_step = line.step >= 0
        what = f"step {line.step}, {line.why}" if is_step else line.why
        since = None if is_step else "the window's start"
        figure = _clipped(timeline_figure(line, since), line)
        until = " until its last work" if is_step else ""
        choices.append((f"{what}: {duration(line.end_ns - line.start_ns)}{until}", figure))
    left_out = sum(line.num_left_out for line in timelines)
    words = f"The shortest {left_out} intervals are left out." if left_out else ""
    colours = _COLOURS if any(line.step >= 0 for line in timelines) else ""
    title = "Host threads above, streams below [µs since the window began]"
    hint = zoom_hint([label for label, _ in choices], colours, "window")
    chart: Block = Chart("timeline", title, tuple(choices), words, hint=hint)
    note = Words("What the host did is drawn to the depth of four ranges.")
    return (Section("timeline", "Timeline", (chart, note)),)


def _clipped(figure: Figure, line: StepTimeline) -> Figure:
    """The figure with the axis from the window's start to its end: what began long before would squeeze the rest."""
    end_us = (line.end_ns - line.start_ns) / 1_000
    axis = {**figure.layout["xaxis"], "range": [0, round(1.02 * end_us, 3)]}
    return dataclasses.replace(figure, layout={**figure.layout, "xaxis": axis})
