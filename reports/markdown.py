"""The whole document as Markdown (GitHub's tables), for pull requests and issue comments."""

from __future__ import annotations

from .document import Answer, Block, Chart, Document, Facts, Section, Table, Words
from .formatting import cell
from .grid import grid, marked, origin_text


def render_markdown(document: Document) -> str:
    """`document` as Markdown; ends with a newline. Charts appear as the sentence that says the same."""
    parts = [f"# {_escape(marked(document.title, document.origin))}", _escape(document.subtitle)]
    if document.origin:
        parts.append(f"> **{_escape(origin_text(document.origin))}.** {_escape(document.notice)}")
    parts.extend(_section(section) for section in document.sections)  # "" for one of charts without words
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section) -> str:
    blocks = [text for block in section.blocks if (text := _block(block))]
    return "\n\n".join([f"## {_escape(section.title)}", *blocks]) if blocks else ""


def _block(block: Block) -> str:
    if isinstance(block, Words):
        return f"**{_escape(block.text)}**" if block.emphasis else _escape(block.text)
    if isinstance(block, Answer):
        figures = [_facts(block.figures)] if block.figures else []
        return "\n\n".join([f"**{_escape(block.question)}**", _escape(block.answer), *figures])
    if isinstance(block, Facts):
        return f"**{_escape(block.caption)}**\n\n{_facts(block.items)}"
    if isinstance(block, Chart):
        return f"*{_escape(marked(block.title, block.origin))}:* {_escape(block.words)}" if block.words else ""
    return _table(block)


def _facts(items: tuple[tuple[str, object], ...]) -> str:
    return "\n".join(f"- {_escape(name)}: {_escape(cell(value))}" for name, value in items)  # type: ignore[arg-type]


def _table(table: Table) -> str:
    content = grid(table)
    lines = [
        f"**{_escape(marked(table.caption, table.origin))}**", "",
        _row(tuple(map(_escape, content.titles))), _row(tuple("---:" if right else "---" for right in content.numeric)),
        *(_row(tuple(_escape(text) for text in row)) for row in content.rows),
    ]
    for mark, sentence in content.footnotes:
        lines += ["", f"[{mark}] {_escape(sentence)}"]
    if table.note:
        lines += ["", _escape(table.note)]
    return "\n".join(lines)


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    """Keep a pipe from ending a cell, and angle brackets, stars and underscores from becoming markup."""
    for char in "\\|*_<":
        text = text.replace(char, f"\\{char}")
    return text.replace("\n", " ")
