"""The page of the claims: every word of a small one, and how figures become words."""

import dataclasses
import textwrap

import pytest
from stepscope.analysis.blocks import Interval
from stepscope.analysis.claims.claim import Claim, Finding
from stepscope.analysis.claims.figures import Difference, Level, Ratio, Removed
from stepscope.analysis.claims.judge import Judged, Verdict, judge
from stepscope.analysis.claims.points import ClaimData, ClaimPoint, Turn
from stepscope.reports.claims.page import HEAD, render_claims
from stepscope.reports.claims.view import RunView
from stepscope.reports.claims.words import (
    found_words,
    interval_words,
    name_words,
    part_lines,
    range_words,
    verdict_short,
    width_words,
)

LARGE, SMALL = {"w": 8}, {"w": 1}
CLAIM = Claim(
    "E1", "First is faster.", "`order`: first, last", "8 rows",
    (
        Finding("last - first, large", Difference(LARGE, "last", "first"), "the table is large", 60e3, None,
                "+60 to +100 us", "host", Ratio(LARGE, "last", "first")),
        Finding("last - first, small", Difference(SMALL, "last", "first"), "the table is small", None, 12e3),
        Finding("first, tiny", Level({"w": 0}, "first")),
    ),
    (Finding("host's share", Removed(Level(LARGE, "first", "wait_ns"), Level(LARGE, "first")), "", None, 0.9,
             bound="host"),),
    "e01.yaml",
)  # fmt: skip
WAITING = Claim("E2", "It waits.", "`x`: a, b")


def view(file: str, more_ns: int = 0) -> RunView:
    points = []
    for launch in range(3):
        for arm in ("first", "last"):
            for cell, late in ((LARGE, 80_000), (SMALL, 30_000)):
                value = 1_000_000 + (late + more_ns + 100 * launch if arm == "last" else 0)
                turn = Turn(0, {"period_ns": (value,), "wait_ns": (400_000 if launch else 20_000,)})
                points.append(ClaimPoint("E1", cell, arm, launch, (turn,)))
    judged = (judge(CLAIM, ClaimData(points)), judge(WAITING, ClaimData([])))
    machine = {"gpu_name": "NVIDIA H200", "gpu_driver": "580", "torch": "2.11", "cpu_model": "Xeon"}
    return RunView(file, "2026-11-30", machine, "perf sweep e01.yaml", judged)


PAGE = """
## Runs

| run | date | GPU | driver | torch | CPU | times | raw turns |
|---|---|---|---|---|---|---|---|
| 1 | 2026-11-30 | NVIDIA H200 | 580 | 2.11 | Xeon | measured | `one.json` |

Made with `perf sweep e01.yaml`. The repetition on another machine is still to come.

## Verdicts

|  | about | verdict |
|---|---|---|
| E1 | `order` | holds in 1 of 2, not in 1 |
| E2 | `x` | not yet run |

## E1: holds where

First is faster.

- Arms: `order`: first, last
- Workload: 8 rows
- Command: `perf sweep examples/claims/e01.yaml`
- Launches: 2, and 1 left out that did not meet a premise
- Verdict: holds where
  - met: the table is large
  - broken: the table is small

| figure | claimed | measured (95 %) | half-width | expected |  |
|---|---|---|---|---|---|
| last - first, large *(host)* | 60 us or more | 80.2 (79.5 to 80.8) us | 0.6 of 21.6 | +60 to +100 us | met |
| last - first, small | 12 us or less | 30.1 (29.5 to 30.8) us | 0.6 of 20.6 |  | broken |
| first, tiny | shown | null: arm first was measured with w 8, not 0; run its spec again | - |  | unmeasured |
| premise: host's share *(host)* | 0.9 or less | 0.727 (0.182 to 1.272) |  |  | met in 2 of 3 launches |

## Not yet run

- E2: It waits. (`x`: a, b)
"""


def test_every_word_of_a_page_of_one_run() -> None:
    page = render_claims([view("one.json")])
    head = HEAD.format(command="perf claims benchmarks/results/h200/one.json --out docs/claims.md")
    assert page == head + PAGE


def test_a_repetition_stands_beside_the_run() -> None:
    page = render_claims([view("one.json"), view("two.json")])
    assert "benchmarks/results/h200/one.json benchmarks/results/h200/two.json --out" in page
    verdict = "holds in 1 of 2, not in 1"
    assert "| 2 | 2026-11-30 | NVIDIA H200 | 580 | 2.11 | Xeon | measured | `two.json` | 1 |" in page
    assert "Runs 1 and 2 were made with `perf sweep e01.yaml`.\n" in page
    assert "|  | about | verdict | repeated | both runs | runs |" in page
    assert f"| E1 | `order` | {verdict} | same words | {verdict} | 1, 2 |\n| E2 | `x` | not yet run |  |  |  |" in page
    expected = textwrap.dedent("""\
        - The same verdict, with the same parts met, in 1 of 1 claims; with the same parts broken and open as well in 1.
        - Of the 2 parts of these claims:
          - decided the same in both runs: 2
          - decided the same in both, at different speeds of the core: 0
          - met in one run and broken in the other: 0
          - met at one speed of the core and broken at the other, in different runs: 0
          - decided in one run, open in the other: 0
          - open in both: 0
        - Device times: the intervals overlap in 1 of 1 figures.
        - Host times, by the ratio of the arms at the same speed of the core: the intervals overlap in 1 of 1 figures.
        - Half-widths within their bound in the first runs: of the device 1 of 1 figures, of the host (at one speed of the core
          at least) 1 of 1.
        - Half-widths within their bound in the second runs: of the device 1 of 1 figures, of the host (at one speed of the core
          at least) 1 of 1.

        **E1**: same verdict

        - Both runs together: holds in 1 of 2, not in 1
          - met: the table is large
          - broken: the table is small

        | figure | of | first run | second run | both runs | intervals | judged |
        |---|---|---|---|---|---|---|
        | last - first, large (ratio of the arms) | host | 1.080 (1.080 to 1.081) | 1.080 (1.080 to 1.081) | 1.080 (1.080 to 1.080) | overlap | met |
        | last - first, small | device | 30.1 (29.5 to 30.8) us | 30.1 (29.5 to 30.8) us | 30.1 (30.0 to 30.3) us | overlap | broken |
        | first, tiny | device | - | - | - | no interval |  |
        """)  # noqa: E501
    assert expected in page
    assert page.count("Run 2\n\n- Launches: 2, and 1 left out") == 1


def test_a_claim_stands_in_the_runs_of_its_present_spec() -> None:
    # GIVEN three runs, the first of which measured the claim by an earlier spec
    old, new, third = view("old.json"), view("new.json"), view("third.json")
    old = dataclasses.replace(old, judged=tuple(judge(one.claim, ClaimData([])) for one in old.judged), earlier=("E1",))
    third = dataclasses.replace(third, command="perf sweep e01.yaml --third")
    page = render_claims([old, new, third])
    # THEN the other two are compared, by their numbers, and the first says why it is not used
    assert "| `old.json` | 0; E1 by an earlier spec: not used |" in page
    assert "1 and 2 were made with `perf sweep e01.yaml`. Run 3 was made with `perf sweep e01.yaml --third`" in page
    assert "| same words | holds in 1 of 2, not in 1 | 2, 3 |" in page
    assert "- Run: 2\n- Launches: 2, and 1 left out" in page
    assert "\nRun 3\n\n- Launches: 2, and 1 left out" in page
    assert "- The same verdict, with the same parts met, in 1 of 1 claims;" in page
    # AND where only one of them has it, its repetition is to come
    alone = render_claims([old, new])
    assert "| E1 | `order` | holds in 1 of 2, not in 1 | still to come |  | 2 |" in alone
    assert "beside each other" not in alone


def test_another_verdict_in_the_repetition_is_spelled_out() -> None:
    page = render_claims([view("one.json"), view("two.json", more_ns=-40_000)])
    assert "in 0 of 1 claims; with the same parts broken and open as well in 0." in page
    assert "  - met in one run and broken in the other: 2" in page
    assert "**E1**: not the same verdict\n\n- Both runs together: undecided" in page
    assert "| apart | met / broken |" in page


@pytest.mark.parametrize(
    ("verdict", "words", "lines"),
    [
        (Verdict("holds", ("a",)), "holds", ["  - met: a"]),
        (
            Verdict("holds_where", ("a", "b"), ("c",), ("d",)), "holds in 2 of 4, not in 1",
            ["  - met: a; b", "  - broken: c", "  - open: d"],
        ),
        (Verdict("does_not_hold", (), ("a",)), "does not hold", ["  - broken: a"]),
        (Verdict("does_not_hold", (), ("a",), ("b",)), "does not hold in 1 of 2", ["  - broken: a", "  - open: b"]),
        (Verdict("undecided", reason="its premise is not met: p"), "undecided", ["  - its premise is not met: p"]),
        (Verdict("unmeasured", reason="no GPU"), "not measured", ["  - no GPU"]),
        (Verdict("not_run"), "not yet run", []),
    ],
)  # fmt: skip
def test_verdicts_as_words(verdict: Verdict, words: str, lines: list[str]) -> None:
    assert verdict_short(verdict) == words
    assert part_lines(verdict) == lines


def test_figures_as_words() -> None:
    assert interval_words(Interval(106_700, 79_900, 133_400, 5), "ns") == "106.7 (79.9 to 133.4) us"
    assert interval_words(Interval(1_500_000, 1_228_000, 1_779_000, 5), "ns") == "1500 (1228 to 1779) us"
    assert interval_words(Interval(1.05, 1.01, 1.09, 5), "1") == "1.050 (1.010 to 1.090)"
    assert interval_words(Interval(1_000, None, None, 1), "ns") == "1.0 us (1 launch, no interval)"
    assert interval_words(None, "ns") == "-"
    assert name_words(Judged(Finding("f", Ratio({}, "a", "b")), "met", None, speed="slowed")) == "f, a slowed core"
    figure = Difference({}, "a", "b")
    assert range_words(Judged(Finding("f", figure, "", -5e3, 5e3), "met", None)) == "-5 to 5 us"
    assert range_words(Judged(Finding("f", Ratio({}, "a", "b"), "", 0.95, None), "met", None)) == "0.95 or more"
    assert found_words(Judged(Finding("f", figure), "unmeasured", None, reason="no GPU")) == "null: no GPU"
    one = Interval(1_000, None, None, 1)
    assert width_words(Judged(Finding("f", figure), "open", one, (1_000.0,), 5_000, False)) == "-"
