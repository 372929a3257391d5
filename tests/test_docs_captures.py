"""The figures of docs/captures.md are those that its own commands print."""

import json
import re
import shlex
from pathlib import Path

import pytest
from stepscope.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
CAPTURES = ROOT.parent / "shared" / "captures"
TEXT = (ROOT / "docs" / "captures.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"^    perf ((?:report|diff) .*--format json)$", re.MULTILINE)
ROW = re.compile(r"^\| (?P<name>[^|]+) \|(?P<values>.*)\|(?P<paths>(?: `[^`]+`)+) \|$", re.MULTILINE)


def sections():
    """(command, rows) of each command with a table behind it: rows are (name, value, path)."""
    found = []
    for match in COMMAND.finditer(TEXT):
        table = TEXT[match.end() : TEXT.index("\n\n", TEXT.index("|---", match.end()))]
        inside = re.search(r"where in `content\.?([a-z]*)`", table)[1]
        rows = []
        for row in ROW.finditer(table):
            values = [text.strip() for text in row["values"].split("|")]
            paths = re.findall(r"`([^`]+)`", row["paths"])
            rows += [(row["name"], value, path) for value, path in zip(values, paths, strict=True) if "[" in path]
        found.append((match[1], inside, rows))
    return found


def reach(value, path):
    """`devices[0].idle_ns` in nested dicts and lists."""
    for name, place in re.findall(r"(\w+)|\[(\d+)\]", path):
        value = value[name] if name else value[int(place)]
    return value


def located(word):
    """A file that the document names: of the repository, or of the captures beside it."""
    if (ROOT / word).exists():
        return str(ROOT / word)
    if word.endswith((".sqlite", ".gz")):
        if not (CAPTURES / word).exists():
            pytest.skip("the captures are not here")
        return str(CAPTURES / word)
    return word


@pytest.mark.parametrize(("command", "inside", "rows"), sections(), ids=lambda own: str(own)[:40])
def test_figures(command, inside, rows, capsys):
    assert len(rows) >= 4
    assert main([located(word) for word in shlex.split(command)]) == 0
    content = json.loads(capsys.readouterr().out)["content"]
    content = content[inside] if inside else content
    assert [(name, str(reach(content, path))) for name, _, path in rows] == [(name, value) for name, value, _ in rows]


def test_three_commands_are_checked():
    assert len(sections()) == 3


def test_what_the_sentences_say_follows_from_the_tables():
    told = {}
    for _, _, rows in sections():
        for name, value, _ in rows:
            told.setdefault(name, []).append(float(value))
    assert sum(told["copies of pinned memory to the device"]) == 446
    assert sum(told["copies of pinned memory to the device"] + told["copies of pageable memory to the device"]) == 450
    window = told["window [ns]"][:2]
    copied = told["copies to the device, union [ns]"]
    share = [100 * own / whole for own, whole in zip(copied, window, strict=True)]
    assert [round(own, 1) for own in share] == [95.0, 95.0]
    alone = [100 - 100 * ran / whole for ran, whole in zip(told["kernels, union [ns]"], window, strict=True)]
    assert [round(own, 1) for own in alone] == [97.7, 97.7]
    for sentence in ("446 of 450", "95.0 % of the window", "97.7 %", "2092 have their call", "25.473 µs"):
        assert sentence in TEXT
