"""`perf sizes` as text: the list, what it gains on steps that it was not chosen by, what it takes, how to set it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from ..analysis.sizes.graphs import GraphFigures
from ..analysis.sizes.judgement import SizesArm, SizesGain
from .engine_settings import engine_settings
from .formatting import count, duration, percent, size

_WIDTH = 118


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesView:
    """What there is to say.

    chosen, arms     the optimum and what it is compared with, on the held-out steps
    predicted        gains over each of the arms by the curves; `measured` those that were run and `measured_as` what
                     of them and where, `why_not` if none was, and `same_steps` what the curves say of the very steps
    graphs           memory and capture time of each arm's list, chosen first
    facts            (name, value) lines above: where steps and times come from
    decode_tokens    tokens of a decode, drafts included
    unbeaten         a list in `arms` that keeps to the limits, has no more graphs and is no slower; "" for none
    """

    chosen: SizesArm
    arms: Sequence[SizesArm]
    predicted: Sequence[SizesGain]
    measured: Sequence[SizesGain]
    why_not: str
    graphs: Sequence[GraphFigures]
    facts: Sequence[tuple[str, str]]
    decode_tokens: int = 1
    same_steps: Sequence[SizesGain] = ()
    unbeaten: str = ""
    measured_as: str = ""


def render_sizes(view: SizesView) -> str:
    """The text, without a newline at its end."""
    parts = [*(f"{name}: {value}" for name, value in view.facts), "", *_list(view), "", *_table(view), ""]
    parts += [_gain("predicted", gain) for gain in view.predicted]
    parts += [_gain("predicted for the steps that were run:", gain) for gain in view.same_steps]
    measured = f"measured ({view.measured_as})" if view.measured_as else "measured"
    parts += [_gain(measured, gain) for gain in view.measured] or [f"not measured: {view.why_not}"]
    if not view.unbeaten:
        settings = engine_settings(view.chosen.sizes, view.decode_tokens)
        parts += ["", *(f"{engine}: {text}" for engine, text in settings)]
    return "\n".join(parts)


def _list(view: SizesView) -> list[str]:
    sizes = view.chosen.sizes
    head = f"capture {len(sizes)} sizes"
    if view.unbeaten:
        head = f"no list of at most {len(sizes)} sizes is better than the one in use ({view.unbeaten}); keep it"
        sizes = next(arm.sizes for arm in view.arms if arm.name == view.unbeaten)
    words = " ".join(map(str, sizes)) or "none: no graph pays"
    return [head, *textwrap.wrap(words, _WIDTH, initial_indent="  ", subsequent_indent="  ")]


def _table(view: SizesView) -> list[str]:
    rows = [("list", "graphs", "T a step", "padding", "eager steps", "graph memory", "capture time")]
    for arm, graphs in zip((view.chosen, *view.arms), view.graphs, strict=True):
        rows.append((
            arm.name, str(len(arm.sizes)), duration(arm.step_mean_ns),
            "none" if arm.padded_share is None else percent(arm.padded_share), count(arm.eager_steps),
            "null" if graphs.memory_bytes is None else size(graphs.memory_bytes),
            "null" if graphs.capture_ns is None else duration(graphs.capture_ns),
        ))  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    reasons = {graphs.reason for graphs in view.graphs if graphs.reason}
    return [*lines, *(f"null: {reason}" for reason in sorted(reasons))]


def _gain(kind: str, gain: SizesGain) -> str:
    """`predicted saving against vllm: 3.67 us a step (3.04 us to 4.30 us, 95 %), 0.433 % of T, n = 8761`."""
    interval = "no interval: too few steps"
    if gain.low_ns is not None and gain.high_ns is not None:
        interval = f"{duration(gain.low_ns)} to {duration(gain.high_ns)}, 95 %"
    return (
        f"{kind} saving against {gain.baseline}: {duration(gain.mean_ns)} a step ({interval}),"
        f" {percent(gain.share)} of T, n = {count(gain.steps)} steps"
    )
