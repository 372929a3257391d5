"""The page of the claims, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.claims.judge import Judged, JudgedClaim
from .beside import beside
from .table import table
from .view import RunView
from .words import CODES, found_words, range_words, verdict_words, width_words

HEAD = """# Claims

Design claims about the step of a model runner, each measured on the laboratory runner. This page is generated from the
stored runs; nothing in it was written by hand:

    {command}

How to read it

- The arms of a claim live side by side in one process and take turns, block by block, A B B A. A launch is a process of
  its own that goes through all claims; the launches live side by side as well and measure one after another. A figure
  is made within a launch, from turns of the same round (halfway between the medians of the rounds A B and of those
  B A); shown are the mean over launches and Student's 95 % interval of it.
- A core of these machines runs at full speed or 1.8 times as slow, for a tenth of a second or for seconds, for reasons
  outside of it. A fixed piece of Python gauges it before and behind each turn. A figure of the host is of the rounds in
  which both arms met an equally fast core, within 15 %; that of a stage which is the host's alone (E5, E7, E8, E9) of
  the turns in which the core was within 15 % of the best of the run, and a launch with too few of them has none.
  Figures of the device, and premises, are of all turns.
- A range in column *claimed* is what the claim says. A figure contradicts it (**broken**) when its interval lies wholly
  outside; it is **met** when the interval lies within, or when its middle does and it is narrow enough; else it is
  **open**.
- An interval is narrow enough when half of it is at most 5 us or 2 % of the times behind the figure (of the longer arm
  for a difference; passed on where figures are divided), and when it is no wider than a claim of two ends. Column
  *half-width* gives half of it and the first bound; `!` marks a wider one. Fewer launches than the claim's are told.
- A claim **holds** when all its figures are met, **holds where** some are met, and **does not hold** (where) when some
  are broken and none is met. A launch that does not meet a premise is left out; where most do not, the claim is
  undecided.
- *expected* is what was written down before anything was measured. *host* marks figures of the host's time: they differ
  between machines, and two runs are compared by the ratio of the arms.
"""


def render_claims(runs: Sequence[RunView]) -> str:
    """The first run, and beside it the second if there is one. Ends with a newline."""
    first = runs[0]
    files = " ".join(f"benchmarks/results/h200/{run.file}" for run in runs)
    parts = [HEAD.format(command=f"perf claims {files} --out docs/claims.md"), _runs(runs), _verdicts(runs)]
    parts += [_claim(judged) for judged in first.judged if judged.verdict.code != "not_run"]
    if len(runs) > 1:
        parts.append(beside(first, runs[1]))
    waiting = [judged for judged in first.judged if judged.verdict.code == "not_run"]
    if waiting:
        parts.append(_waiting(waiting))
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _runs(runs: Sequence[RunView]) -> str:
    rows = [
        [
            str(number), run.date, str(run.machine.get("gpu_name") or "none"),
            str(run.machine.get("gpu_driver") or "none"), str(run.machine.get("torch") or "unknown"),
            str(run.machine.get("cpu_model") or "unknown"), run.origin or "measured", f"`{run.file}`",
        ]
        for number, run in enumerate(runs, start=1)
    ]  # fmt: skip
    titles = ("run", "date", "GPU", "driver", "torch", "CPU", "times", "raw turns")
    made = "Both made" if len(runs) > 1 else "Made"
    alone = "" if len(runs) > 1 else " The repetition on another machine is still to come."
    return f"## Runs\n\n{table(titles, rows)}\n\n{made} with `{runs[0].command}`.{alone}\n"


def _verdicts(runs: Sequence[RunView]) -> str:
    others = {judged.claim.name: judged for judged in runs[1].judged} if len(runs) > 1 else {}
    rows = []
    for judged in runs[0].judged:
        row = [judged.claim.name, judged.claim.sentence, verdict_words(judged.verdict)]
        if others:
            again = others[judged.claim.name].verdict
            row.append("same" if again.same_as == judged.verdict.same_as else verdict_words(again))
        rows.append(row)
    titles = ("", "claim", "verdict", *(("second run",) if others else ()))
    return f"## Verdicts\n\n{table(titles, rows)}\n"


def _claim(judged: JudgedClaim) -> str:
    claim = judged.claim
    rows = [_row(one, one.finding.name, _state(one), judged.launches) for one in judged.findings]
    rows += [[*_row(one, f"premise: {one.finding.name}", "")[:3], "", "", _met_in(one)]
             for one in judged.premises]  # fmt: skip
    titles = ("figure", "claimed", "measured (95 %)", "half-width", "expected", "")
    return "\n".join([
        f"## {claim.name}: {CODES[judged.verdict.code]}", "", claim.sentence, "",
        f"- Arms: {claim.arms}", f"- Workload: {claim.workload}", f"- Launches: {_launches(judged)}",
        f"- Verdict: {verdict_words(judged.verdict)}", f"- Command: `perf sweep examples/claims/{claim.spec}`", "",
        table(titles, rows), "",
    ])  # fmt: skip


def _launches(judged: JudgedClaim) -> str:
    left_out = len(judged.left_out)
    return f"{judged.launches}{f', and {left_out} left out that did not meet a premise' if left_out else ''}"


def _row(judged: Judged, name: str, state: str, launches: int = 0) -> list[str]:
    count = 0 if judged.interval is None else judged.interval.launches
    of = f", {count} launches" if 1 < count < launches else ""
    host = " *(host)*" if judged.finding.bound == "host" else ""
    return [
        f"{name}{host}", range_words(judged), f"{found_words(judged)}{of}", width_words(judged),
        judged.finding.expected, state,
    ]  # fmt: skip


def _state(judged: Judged) -> str:
    return "" if judged.state == "shown" else judged.state


def _met_in(premise: Judged) -> str:
    met = sum(premise.finding.allows(value, value) for value in premise.by_launch)
    return f"met in {met} of {len(premise.by_launch)} launches"


def _waiting(waiting: Sequence[JudgedClaim]) -> str:
    lines = [f"- {judged.claim.name}: {judged.claim.sentence} ({judged.claim.arms})" for judged in waiting]
    return "\n".join(["## Not yet run", "", *lines, ""])
