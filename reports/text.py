"""The terminal summary: the brief sections of a document in plain text, without colour, at most about 120 columns."""

from __future__ import annotations

import textwrap
from dataclasses import replace

from .document import Answer, Block, Chart, Document, Facts, Section, Table, Words
from .formatting import cell
from .grid import ORIGIN_TITLE, Grid, grid, marked, origin_text

WIDTH = 118
"""Columns of running text."""
TABLE_WIDTH = 160
"""Columns of a table; what lies beyond is named under it instead."""
_GAP = "  "


def render_text(document: Document) -> str:
    """`document` as text; ends with a newline. Charts appear as the sentence that says the same."""
    parts = [document.title, document.subtitle]
    if document.origin:
        parts.append(_wrap(f"{origin_text(document.origin)}. {document.notice}"))
    parts.append("=" * WIDTH)
    parts.extend(_section(section) for section in document.sections if section.brief)
    return "\n".join(part for part in parts if part) + "\n"


def _section(section: Section) -> str:
    blocks = [text for block in section.blocks if (text := _block(block))]
    return "\n".join([f"\n{section.title}", "-" * len(section.title), "\n\n".join(blocks)]) if blocks else ""


def _block(block: Block) -> str:
    if isinstance(block, Words):
        return _wrap(block.text)
    if isinstance(block, Answer):
        return _answer(block)
    if isinstance(block, Facts):
        return _facts(block.items, block.caption)
    if isinstance(block, Chart):
        return _wrap(marked(block.words, block.origin)) if block.words else ""
    return _table(block)


def _answer(answer: Answer) -> str:
    lines = [answer.question, _wrap(answer.answer, indent="  ")]
    if answer.figures:
        lines.append(_facts(answer.figures, indent="    "))
    return "\n".join(lines)


def _facts(items: tuple[tuple[str, object], ...], caption: str = "", indent: str = "  ") -> str:
    width = max((len(name) for name, _ in items), default=0)
    lines = [f"{indent}{name.ljust(width)}{_GAP}{cell(value)}" for name, value in items]  # type: ignore[arg-type]
    return "\n".join(([caption] if caption else []) + lines)


def _table(table: Table) -> str:
    whole = grid(table)
    content, left_out = _narrowed(whole)
    if left_out and whole.numeric == (False, False):
        content, left_out = _sentences(whole), ()
    lines = [marked(table.caption, table.origin), *_lines(content)]
    if left_out:
        lines.append(_wrap(f"Columns that do not fit here: {', '.join(left_out)}."))
    lines += [f"[{mark}] {sentence}" for mark, sentence in content.footnotes]
    if table.note:
        lines.append(_wrap(table.note))
    return "\n".join(lines)


def _widths(content: Grid) -> list[int]:
    return [max(map(len, column)) for column in zip(content.titles, *content.rows, strict=True)]


def _narrowed(content: Grid) -> tuple[Grid, tuple[str, ...]]:
    """The columns from the left that fit, the origin always among them, and the titles of the others."""
    widths = _widths(content)
    last = [len(widths) - 1] if content.titles[-1] == ORIGIN_TITLE else []
    used = sum(widths[i] + len(_GAP) for i in last)
    kept: list[int] = []
    for i in range(len(widths) - len(last)):
        used += widths[i] + len(_GAP)
        if used > TABLE_WIDTH and kept:
            break
        kept.append(i)
    kept += last
    left_out = tuple(title for i, title in enumerate(content.titles) if i not in kept)
    rows = tuple(tuple(row[i] for i in kept) for row in content.rows)
    titles, numeric = tuple(content.titles[i] for i in kept), tuple(content.numeric[i] for i in kept)
    shown = {text for row in rows for text in row}
    notes = tuple((mark, said) for mark, said in content.footnotes if any(text.endswith(f"[{mark}]") for text in shown))
    return Grid(titles, numeric, rows, notes), left_out


def _sentences(content: Grid) -> Grid:
    """Two columns of words, of which the second is too long for a line: it goes on in lines of its own."""
    room = TABLE_WIDTH - _widths(content)[0] - len(_GAP)
    rows = [
        ("" if at else name, line)
        for name, said in content.rows
        for at, line in enumerate(textwrap.wrap(said, max(room, 40), break_on_hyphens=False) or [""])
    ]
    return replace(content, rows=tuple(rows))


def _lines(content: Grid) -> list[str]:
    everything = (content.titles, *content.rows)
    widths = _widths(content)
    written = [_line(row, widths, content.numeric) for row in everything]
    return [written[0], _GAP.join("-" * width for width in widths), *written[1:]]


def _line(row: tuple[str, ...], widths: list[int], numeric: tuple[bool, ...]) -> str:
    cells = (text.rjust(w) if right else text.ljust(w) for text, w, right in zip(row, widths, numeric, strict=True))
    return _GAP.join(cells).rstrip()


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
