"""The gate's verdict as Markdown: a table of points, the worst first."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...analysis.gate.beside import Beside
from ...analysis.gate.point import PointVerdict
from ...analysis.gate.suite import SuiteVerdict
from ...analysis.gate.verdict import Verdict
from .reasons import meanings
from .words import name_of, point_name, sentence, signed

_HEAD = ("verdict", "point", "effect", "90 % interval", "least effect", "Holm p", "why")
_SPECIAL = re.compile(r"[\\|<>*`\[\]~#&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ORDER = {verdict: place for place, verdict in enumerate(Verdict)}


def render_gate(suite: SuiteVerdict, notes: Sequence[str] = (), beside: Sequence[Beside] = ()) -> str:
    """`suite` as Markdown; `notes` stand above the table, what is not gated below. Ends with a newline."""
    counts = ", ".join(
        f"{sum(point.verdict is verdict for point in suite.points)} {verdict.value}" for verdict in Verdict
    )
    lines = [f"# perf gate: {suite.verdict.value}", "", counts, ""]
    lines += [line for note in notes for line in (f"> {_escape(note)}", "")]
    lines += [_row(_HEAD), _row(("---", "---", "---:", "---:", "---:", "---:", "---"))]
    lines += [_point(point, suite) for point in sorted(suite.points, key=lambda point: _ORDER[point.verdict])]
    for metric, found in suite.geomeans.items():
        lines += ["", f"All {found.points} points, {_escape(metric)}: {signed(found.effect)} (90 %: {signed(found.low)}"
                  f" to {signed(found.high)}): {found.verdict.value}, {found.reason.value}"]  # fmt: skip
    lines += ["", *map(_beside, beside)] if beside else []
    lines += ["", *(f"- {_escape(code)}: {_escape(said)}" for code, said in meanings(p.reason for p in suite.points))]
    return "\n".join(lines) + "\n"


def _point(point: PointVerdict, suite: SuiteVerdict) -> str:
    figures = point.figures
    p_value = suite.holm_p.get((point.point, point.metric))
    return _row((
        f"**{point.verdict.value}**", _escape(name_of(point)),
        signed(None if figures is None else figures.effect),
        "" if figures is None or figures.low is None else f"{signed(figures.low)} to {signed(figures.high)}",
        "" if figures is None else signed(figures.least_effect), "" if p_value is None else f"{p_value:.2g}",
        _escape(sentence(point)),
    ))  # fmt: skip


def _beside(one: Beside) -> str:
    interval = "" if one.low is None else f" (90 %: {signed(one.low)} to {signed(one.high)})"
    return f"- not gated: {_escape(point_name(one.point))}, {_escape(one.metric)}: {signed(one.effect)}{interval}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    """What Markdown would read as more than itself, escaped; an underscore inside a word is one (GFM, 6.2)."""
    return " ".join(_SPECIAL.sub(r"\\\g<0>", text).split())
