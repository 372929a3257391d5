"""Numbers that no work can be done with: refused in one line that names the option, before anything is measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

RECORDING = Path(__file__).resolve().parents[2] / "examples" / "recordings" / "h200" / "decode"
HUGE = str(10**21)
REFUSED = {
    ("gate", "plan", "--sd"): ("0", "-1", "1", "nan", "inf", "1e-300"),
    ("gate", "plan", "--sd", "0.01", "--points"): ("0", "-1", HUGE),
    ("gate", "plan", "--sd", "0.01", "--block"): ("0", "-1", "nan", "inf", "1e300", "1e-300"),
    ("gate", "plan", "--sd", "0.01", "--launch"): ("-1", "nan", "inf", "1e300"),
    ("gate", "--head", "set:seed=1", "--block-steps"): ("0", "9", HUGE),
    ("gate", "calibrate", "--block-steps"): ("9", HUGE),
    ("gate", "calibrate", "--launches"): ("19", HUGE),
    ("sizes", RECORDING, "--max"): ("0", HUGE),
    ("sizes", RECORDING, "--multiple"): ("-1", HUGE),
    ("sizes", RECORDING, "--max-num-seqs"): ("0", "-1", HUGE),
    ("sizes", RECORDING, "--drafts"): ("-1", HUGE),
    ("sizes", RECORDING, "--limit"): ("0", "-1", "5"),
    ("sizes", RECORDING, "--speed"): ("0", "nan", "2"),
    ("sweep", "--dry-run", "--workers"): ("0", "-1", HUGE),
    ("sweep", "--dry-run", "--timeout"): ("0", "-1", "nan", "inf"),
    ("verify", "recorder", "--seconds"): ("0", "-1", "nan", "inf", "1e300"),
    ("capture", "--windows"): ("0", "-1", HUGE),
    ("capture", "--workers"): ("-1", HUGE),
}


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: "-".join(Path(word).name for word in words))
def test_one_line_names_the_option(perf: Callable[..., object], words: tuple[object, ...]) -> None:
    for number in REFUSED[words]:
        behind = ("--", "true") if words[0] == "capture" else ()
        ended = perf(*words, number, *behind)
        assert ended.code == 2, (number, ended.out, ended.err)
        lines = ended.err.splitlines()
        assert len(lines) == 1, lines
        assert str(words[-1]) in lines[0]


def test_options_of_nsys_belong_to_nsys(perf: Callable[..., object]) -> None:
    for options in (("--graph-trace", "node"), ("--workers", "2"), ("--windows", "2")):
        ended = perf("capture", "--profiler", "torch", *options)
        assert (ended.code, "drop them" in ended.err or "belong" in ended.err) == (2, True), ended.err
