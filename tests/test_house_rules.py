"""The house rules that a linter does not know: lengths of files and functions, no absolute paths of a machine."""

from __future__ import annotations

import ast
import re
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("analysis", "cli", "experiments", "instrumentation", "reports", "runner", "workloads")
FILE_MAX = 400
FILE_MEDIAN_MAX = 120
FUNCTION_MAX = 50
FUNCTION_MEDIAN_MAX = 10
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b")

SOURCES = sorted([*ROOT.glob("*.py"), *(path for floor in FLOORS for path in (ROOT / floor).rglob("*.py"))])


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def num_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def functions(path: Path) -> dict[str, int]:
    """Length in lines of each function, from `def` to its last line."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        f"{name_of(path)}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_the_tree_is_found() -> None:
    assert len(SOURCES) > 50


def test_no_file_is_longer_than_the_limit() -> None:
    assert {name_of(path): num_lines(path) for path in SOURCES if num_lines(path) > FILE_MAX} == {}


def test_half_of_the_files_are_short() -> None:
    lengths = [num_lines(path) for path in SOURCES if num_lines(path) > 0]
    assert statistics.median(lengths) <= FILE_MEDIAN_MAX


def test_no_function_is_longer_than_the_limit() -> None:
    found = {where: length for path in SOURCES for where, length in functions(path).items()}
    assert {where: length for where, length in found.items() if length > FUNCTION_MAX} == {}
    assert statistics.median(found.values()) <= FUNCTION_MEDIAN_MAX


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_no_unfinished_word_stands_in_the_source(path: Path) -> None:
    assert UNFINISHED.findall(path.read_text(encoding="utf-8")) == []


def test_the_root_holds_no_stray_module() -> None:
    # Every root file ends in the wheel, so the root holds the package's own four modules and no conftest or noxfile.
    assert sorted(path.name for path in ROOT.glob("*.py")) == ["__init__.py", "__main__.py", "errors.py"]


def test_every_room_stands_on_the_map_and_nothing_else() -> None:
    # GIVEN the folders that hold code, and those that the map of the house names in its first column
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = text.partition("## The rooms")[2].partition("\n## ")[0].splitlines()
    named = {name for row in rows if row.startswith("| `") for name in re.findall(r"`([a-z_/]+)/`", row.split("|")[1])}
    named |= {f"instrumentation/sources/{name}" for name in ("kineto", "nsys", "scrub")}  # told in one line
    rooms = {name_of(path.parent) for path in SOURCES if path.parent != ROOT}
    assert named == {*rooms, "runner/data", "reports/templates"}
    # AND the files that it names are there, in the folder of their line
    for row in rows[3:]:
        folders, told = row.split("|")[1:3] if row.startswith("| `") else ("", "")
        for file in re.findall(r"`([a-z_]+\.py)`", told):
            assert any((ROOT / folder / file).exists() for folder in re.findall(r"`([a-z_/]+)/`", folders)), file
