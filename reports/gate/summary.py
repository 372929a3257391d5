"""The gate's verdict for a job summary of GitHub: whole rows up to a limit, the worst first, and what is left out said.

GitHub drops a step's whole summary above 1 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.gate.point import PointVerdict
from ...analysis.gate.result import GateResult
from ...analysis.gate.verdict import Verdict
from .markup import code, plain
from .order import counts, worst_first
from .words import name_of, sentence, signed

LIMIT_BYTES = 1_000_000
_RESERVE_BYTES = 1_000
"""For the table's end and the sentence that counts what is left out."""
_HEAD = ("verdict", "point", "effect", "90 % interval", "why")
_RULE = ("---", "---", "---:", "---:", "---")


def render_summary(result: GateResult, limit_bytes: int = LIMIT_BYTES) -> str:
    """`result` as Markdown of at most `limit_bytes` (UTF-8); ends with a newline.

    What did not pass stands open; what passed is folded away. A summary that cannot hold its own head is empty.
    """
    head = "\n".join(_opening(result)) + "\n"
    room = limit_bytes - len(head.encode()) - _RESERVE_BYTES
    if room < 0:
        brief = f"## perf gate: {result.suite.verdict.value}\n"
        return brief if len(brief) <= limit_bytes else ""
    order = worst_first(result.suite)
    seen = [point for point in order if point.verdict is not Verdict.PASS]
    passed = [point for point in order if point.verdict is Verdict.PASS]
    open_text, used, shown = _table(seen, room)
    folded, _, more = _table(passed, room - used)
    parts = [head, open_text]
    if folded:
        parts.append(f"<details><summary>{len(passed)} passed</summary>\n\n{folded}\n</details>\n")
    left = len(order) - shown - more
    if left:
        parts.append(f"\n**{left} of {len(order)} rows are left out here** (a summary holds 1 MB): the exit code and"
                     " the other outputs cover them all.\n")  # fmt: skip
    return "\n".join(part for part in parts if part)


def _opening(result: GateResult) -> Iterator[str]:
    suite = result.suite
    yield from (f"## perf gate: {suite.verdict.value}", "")
    yield from (f"{counts(suite)}. Reasons: {', '.join(reason.value for reason in suite.reasons)}.", "")
    yield from (f"Base {code(result.base)}, head {code(result.head)}.", "")
    for note in result.notes[:20]:
        yield from (f"> {plain(note)}", "")
    for metric, found in list(suite.geomeans.items())[:20]:
        yield f"All {found.points} points, {code(metric)}: {signed(found.effect)} (90 %: {signed(found.low)} to" \
              f" {signed(found.high)}): {found.verdict.value}, {found.reason.value}"  # fmt: skip
        yield ""
    for one in result.beside[:20]:
        interval = "" if one.low is None else f" (90 %: {signed(one.low)} to {signed(one.high)})"
        yield from (f"Not gated: {code(one.point)} {code(one.metric)}: {signed(one.effect)}{interval}", "")


def _table(points: list[PointVerdict], room: int) -> tuple[str, int, int]:
    """(text, its bytes, rows in it): as many whole rows as fit into `room` bytes."""
    lines = [_row(_HEAD), _row(_RULE)]
    used = sum(len(line.encode()) + 1 for line in lines)
    for point in points:
        line = _row(_cells(point))
        size = len(line.encode()) + 1
        if used + size > room:
            break
        lines.append(line)
        used += size
    shown = len(lines) - 2
    return ("\n".join(lines) + "\n", used, shown) if shown else ("", 0, 0)


def _cells(point: PointVerdict) -> tuple[str, ...]:
    figures = point.figures
    known = figures is not None and figures.low is not None
    return (
        f"**{point.verdict.value}**", code(name_of(point)), signed(None if figures is None else figures.effect),
        f"{signed(figures.low)} to {signed(figures.high)}" if figures is not None and known else "",
        plain(sentence(point)),
    )  # fmt: skip


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
