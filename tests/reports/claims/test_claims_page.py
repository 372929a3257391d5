"""The page of the claims: every word of a small one, and how figures become words."""

import dataclasses

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


BESIDE = """
## The runs of each claim beside each other

| runs | same verdict | same words | contradicted parts | device intervals overlap | host ratios overlap |
|---|---|---|---|---|---|
| 1 and 2 | 1 of 1 claims | 1 of 1 claims | 0 of 2 | 1 of 1 figures | 1 of 1 figures |

*Same verdict*: with the same parts met; *same words*: with the same parts broken and open as well. Host times are
compared by the ratio of the arms at the same speed of the core. Two runs that have no claim in common have no line.

| parts of the claims | runs 1 and 2 |
|---|---|
| decided the same in both runs | 2 |
| decided the same in both, at different speeds of the core | 0 |
| met in one run and broken in the other | 0 |
| met at one speed of the core and broken at the other, in different runs | 0 |
| decided in one run, open in the other | 0 |
| open in both | 0 |
| all | 2 |

| run | half-widths of the device within their bound | of the host, at one speed of the core at least |
|---|---|---|
| 1 | 1 of 1 figures | 1 of 1 figures |
| 2 | 1 of 1 figures | 1 of 1 figures |

### Parts of which two runs do not say the same

None.

### Device figures whose intervals are apart

None.

### All figures

**E1**: same verdict

- All runs together: holds in 1 of 2, not in 1
  - met: the table is large
  - broken: the table is small

| figure | of | run 1 | run 2 | all runs | intervals | judged |
|---|---|---|---|---|---|---|
| last - first, large (ratio of the arms) | host | 1.080 (1.080 to 1.081) | 1.080 (1.080 to 1.081) | 1.080 (1.080 to 1.080) | overlap | met |
| last - first, small | device | 30.1 (29.5 to 30.8) us | 30.1 (29.5 to 30.8) us | 30.1 (30.0 to 30.3) us | overlap | broken |
| first, tiny | device | - | - | - | no interval |  |
"""  # noqa: E501


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
    assert "|  | about | run 1 | run 2 | all runs |" in page
    assert f"| E1 | `order` | {verdict} | same words | {verdict} |\n| E2 | `x` | - | - | not yet run |" in page
    assert "- Hold in every run, of claims with two runs or more: none.\n" in page
    assert "- The same verdict in every run: 1 of 1 claims; in the same words: 1 of 1 claims.\n\n## E1: holds" in page
    assert page.endswith(BESIDE + "\n## Not yet run\n\n- E2: It waits. (`x`: a, b)\n")
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
    assert "| earlier spec | holds in 1 of 2, not in 1 | same words | holds in 1 of 2, not in 1 |" in page
    assert "- Run: 2\n- Launches: 2, and 1 left out" in page
    assert "\nRun 3\n\n- Launches: 2, and 1 left out" in page
    assert "\n| 2 and 3 | 1 of 1 claims | 1 of 1 claims |" in page
    assert "\n| 1 and " not in page
    assert "| figure | of | run 2 | run 3 | all runs |" in page
    # AND where only one of them has it, its repetition is to come
    alone = render_claims([old, new])
    assert "| E1 | `order` | earlier spec | holds in 1 of 2, not in 1 | a repetition is to come |" in alone
    assert "beside each other" not in alone
    assert "Hold in every run" not in alone


def test_another_verdict_in_the_repetition_is_spelled_out() -> None:
    page = render_claims([view("one.json"), view("two.json", more_ns=-40_000)])
    assert "| 1 and 2 | 0 of 1 claims | 0 of 1 claims | 2 of 2 | 0 of 1 figures | 0 of 1 figures |" in page
    assert "| met in one run and broken in the other | 2 |" in page
    assert "- The same verdict in every run: 0 of 1 claims (not E1); in the same words: 0 of 1 claims (not E1)." in page
    assert "| holds in 1 of 2, not in 1 | holds in 1 of 2, not in 1, other parts | undecided |" in page
    assert "## E1: undecided\n" in page
    assert "**E1**: not the same verdict\n\n- All runs together: undecided" in page
    assert "| apart | met / broken |" in page


def test_three_runs_have_a_column_each_and_a_line_for_every_two() -> None:
    # GIVEN a machine between two others, whose intervals are apart
    page = render_claims([view("one.json"), view("two.json", more_ns=1_000), view("three.json", more_ns=2_000)])
    assert "Runs 1, 2 and 3 were made with" in page
    verdict = "holds in 1 of 2, not in 1"
    assert f"| E1 | `order` | {verdict} | same words | same words | {verdict} |" in page
    same = "1 of 1 claims | 1 of 1 claims | 0 of 2"
    lines = [f"| {runs} | {same} | {device} of 1 figures | {host} of 1 figures |\n"
             for runs, device, host in (("1 and 2", 1, 1), ("1 and 3", 0, 0), ("2 and 3", 1, 1))]  # fmt: skip
    assert "".join(lines) in page
    assert "| parts of the claims | runs 1 and 2 | runs 1 and 3 | runs 2 and 3 |" in page
    assert "| decided the same in both runs | 2 | 2 | 2 |" in page
    # THEN the pair is named, with both intervals, and no other
    apart = page.partition("### Device figures whose intervals are apart\n\n")[2].partition("\n\n###")[0]
    assert apart.splitlines()[2:] == [
        "| E1 | last - first, small | 1 and 3 | 30.1 (29.5 to 30.8) us | 32.1 (31.5 to 32.8) us | broken |"
    ]
    assert "| figure | of | run 1 | run 2 | run 3 | all runs | intervals | judged |" in page
    assert "| 32.1 (31.5 to 32.8) us | 31.1 (28.7 to 33.6) us | apart: 1 and 3 | broken |" in page
    assert [page.count(f"\nRun {number}\n") for number in (1, 2, 3)] == [0, 1, 1]


def test_a_run_that_says_something_else_is_named_with_the_parts_in_each_of_its_pairs() -> None:
    page = render_claims([view("1.json"), view("2.json", more_ns=-40_000), view("3.json"), view("4.json", -40_000)])
    words = "holds in 1 of 2, not in 1"
    cells = f"{words} | {words}, other parts | same words as run 1 | same words as run 2 | undecided"
    assert f"| E1 | `order` | {cells} |" in page
    differ = page.partition("### Parts of which two runs do not say the same\n\n")[2].partition("\n\n###")[0]
    first, second = (f"met: the table is {one}; broken: the table is {two}"
                     for one, two in (("large", "small"), ("small", "large")))  # fmt: skip
    both = f"{words} / {words}"
    assert differ.splitlines()[2:] == [
        f"| 1 and 2 | E1 | {both} | {first} | {second} |", f"| 1 and 4 | E1 | {both} | {first} | {second} |",
        f"| 2 and 3 | E1 | {both} | {second} | {first} |", f"| 3 and 4 | E1 | {both} | {first} | {second} |",
    ]  # fmt: skip


def test_a_run_that_lacks_a_claim_has_no_column_of_it() -> None:
    without = view("2.json")
    without = dataclasses.replace(without, judged=tuple(judge(one.claim, ClaimData([])) for one in without.judged))
    page = render_claims([view("1.json"), without, view("3.json")])
    words = "holds in 1 of 2, not in 1"
    assert f"| E1 | `order` | {words} | - | same words | {words} |" in page
    assert "| figure | of | run 1 | run 3 | all runs |" in page
    assert "\n| 1 and 3 | 1 of 1 claims |" in page
    assert "\n| 1 and 2 |" not in page
    assert "\n| 1 | 1 of 1 figures | 1 of 1 figures |\n| 3 | 1 of 1 figures | 1 of 1 figures |\n\n" in page


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
