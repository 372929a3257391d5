"""One self-contained HTML file: style, script, data and Plotly inside, so that it opens without a network."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import jinja2
from plotly.offline import get_plotlyjs

from .document import Answer, Block, Chart, Document, Facts, Link, Missing, Table
from .footnotes import Footnotes
from .formatting import cell, sort_value
from .grid import ORIGIN_TITLE, marked, origin_text, title_of
from .unbroken import unbroken

_TEMPLATES = Path(__file__).parent / "templates"
_KINDS: tuple[tuple[type, str], ...] = ((Answer, "answer"), (Facts, "facts"), (Table, "table"), (Chart, "chart"))


def render_html(document: Document) -> str:
    """`document` as one HTML file. Plotly's bundle (4.8 MB) is in it exactly once, and only if there is a chart."""
    return _environment().get_template("page.html").render(
        document=document,
        style=_template_text("style.css"),
        script=_template_text("page.js"),
        figures=figures_json(document.charts),
        plotly=get_plotlyjs() if document.charts else "",
        version=_version(),
    )


def figures_json(charts: tuple[Chart, ...]) -> str:
    """Strict JSON of all figures by chart id, safe inside a <script> element."""
    figures = {
        chart.id: [{"data": f.data, "layout": f.layout, "height_px": f.height_px} for _, f in chart.choices]
        for chart in charts
    }
    text = json.dumps(figures, allow_nan=False, separators=(",", ":"))
    return text.replace("</", "<\\/").replace("<!--", "<\\u0021--")


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
    )
    environment.filters["unbroken"] = unbroken
    environment.globals.update(
        is_missing=lambda item: isinstance(item, Missing), is_link=lambda item: isinstance(item, Link),
        text_of=cell, sort_value=sort_value, title_of=title_of, origin_text=origin_text, marked=marked,
        origin_title=ORIGIN_TITLE, footnotes=Footnotes.of, grouped=_grouped,
    )
    return environment


def _grouped(blocks: tuple[Block, ...]) -> Iterator[tuple[str, list[Block]]]:
    """Neighbouring blocks of one kind together: answers and fact sheets stand side by side on the page."""
    for kind, group in itertools.groupby(blocks, _kind):
        yield kind, list(group)


def _kind(block: Block) -> str:
    return next((name for type_, name in _KINDS if isinstance(block, type_)), "words")


@functools.cache
def _template_text(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _version() -> str:
    try:
        return metadata.version("stepscope")
    except metadata.PackageNotFoundError:  # a checkout on the path, not installed
        return "(checkout)"
