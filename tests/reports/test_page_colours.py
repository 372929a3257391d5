"""Pages follow the reader's colour scheme: every colour of the style has a light and a dark value."""

from __future__ import annotations

import re
from pathlib import Path

from stepscope import reports
from stepscope.reports.figures.captures import IDLE

TEMPLATES = Path(reports.__file__).parent / "templates"
STYLE, SCRIPT = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("style.css", "page.js"))
BLOCKS = [block.split("}\n")[0] for block in STYLE.split("@media screen")[:2]]
LIGHT, DARK = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in BLOCKS)
USED = set(re.findall(r"var\(--([\w-]+)\)", STYLE)) | set(re.findall(r'"--([\w-]+)"', SCRIPT))


def test_every_colour_has_two_values() -> None:
    assert LIGHT.keys() == DARK.keys() == USED
    # AND none is written beside them: it would be of one scheme
    rules = STYLE.split("  }\n}\n", 1)[1]
    assert not re.findall(r"#[0-9a-f]{3,6}\b|rgba?\(", rules)


def test_ink_and_paper_of_figures_become_the_page_s() -> None:
    own = dict(re.findall(r'"(#[0-9a-f]{3,6})": "--([\w-]+)"', SCRIPT))
    assert {"#fff", "#ffffff", "#1d2433", IDLE} <= own.keys()
    for colour, name in own.items():
        if len(colour) == 7 and colour != "#495057":
            assert LIGHT[name] == colour  # so that nothing changes on a light page


def test_printed_pages_are_light() -> None:
    assert "@media screen and (prefers-color-scheme: dark)" in STYLE
    assert STYLE.count("prefers-color-scheme") == 1
