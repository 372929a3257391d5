"""The page of the claims, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.claims.judge import Judged, JudgedClaim
from ...analysis.claims.runs import ComparedClaim, compare_runs
from .beside import beside
from .table import table
from .verdicts import verdicts
from .view import ClaimRuns, RunView, by_claim
from .words import CODES, filled, found_words, joined, name_words, part_lines, range_words, width_words

HEAD = """# Claims

Design claims about the step of a model runner, each measured on the laboratory runner. This page is generated from the
stored runs; nothing in it was written by hand:

    {command}

How to read it

- The arms of a claim live side by side in one process and take turns, block by block, A B B A. A launch is a process of
  its own that goes through all claims; the launches live side by side as well and measure one after another, some
  rounds at a visit. A figure is made within a launch, from turns of the same round (halfway between the medians of the
  rounds A B and of those B A); shown are the mean over launches and Student's 95 % interval of it.
- A period is not taken from the round that a visit begins with where the arms have a runner each: the device takes 12 %
  less for the first turn of a visit, which is always the same arm's.
- A core of these machines runs at full speed or about 1.8 times as slow, for a tenth of a second or for seconds, for
  reasons outside of it. A figure of the host is made at each speed by itself, of rounds in which both arms met a core
  of that speed. A piece of Python gauges the core before and behind each turn; the medians of an arm's steps in turns
  gauged fast and gauged slow are its two levels, for turns that come first in their round and for those that come last
  by themselves (these find another arm's caches), and a turn is of the speed that three in four of its steps are nearer
  to (in ratio). Turns that a change fell into are of none. Where the levels lie within 20 %, where there are fewer than
  three turns of one kind, or where turns gauged fast come out slow, the gauge alone decides. Figures of the device, and
  premises, are of all turns.
- A range in column *claimed* is what the claim says. A figure contradicts it (**broken**) when its interval lies wholly
  outside; it is **met** when the interval lies within, or when its middle does and the interval is short: half of it is
  within its bound in column *half-width* and, of a time, at most 5 us or 2 % of the figure itself, and all of it is no
  wider than a claim of two ends. Else it is **open**.
- Column *half-width* gives half of the interval and its bound: 5 us or 2 % of the times behind the figure (of the
  longer arm for a difference; passed on where figures are divided), whichever is more; `!` marks one beyond it. Fewer
  launches than the claim's are told.
- A part of a claim is one figure with a range. It is met when it is met at one speed of the core and broken at none,
  broken the other way round, and two parts where it is met at one and broken at the other. A claim **holds** when all
  its parts are met, **holds where** some are, and **does not hold** when some are broken and none is met. A launch that
  does not meet a premise is left out; where most do not, the claim is undecided.
- *expected* is what was written down before anything was measured. *host* marks figures of the host's time: they differ
  between machines, and two runs are compared by the ratio of the arms.
- Two runs have the **same verdict** when they give the same word with the same parts met. They **contradict** each
  other in a part when one meets it and the other breaks it at the same speed of the core.
- Where a spec was changed after a run, its runs are those of the spec of the last file that has the claim; other files'
  points of it are not used, and told in the table of runs.
- *All runs* is over the launches of all runs of the claim. With the means m of k machines and their variances v (of
  launches, s^2 / n) the variance between machines is t = max(0, variance of the m - mean of the v); each mean weighs
  1 / (v + t); the interval is Student's, with Satterthwaite's degrees of freedom, of which t has k - 1: a few machines
  that differ make it wide (in simulations it covers the truth in 82 to 95 % of draws). A part that all runs decide the
  same stays so; any other is judged by this interval, by the rules above: where runs contradict each other it is as
  wide as their difference, as a rule, and the part is open. A run that lacks the figure does not count, nor does one
  with a single launch where another has more.
"""


def render_claims(runs: Sequence[RunView]) -> str:
    """Each claim in every run that has it, and these runs beside each other. Ends with a newline."""
    claims, compared = by_claim(runs), compare_runs([run.judged for run in runs])
    several = {claim.name: claim for claim in compared.claims}
    files = " ".join(f"benchmarks/results/h200/{run.file}" for run in runs)
    head = HEAD.format(command=f"perf claims {files} --out docs/claims.md")
    parts = [head, _runs(runs), verdicts(claims, runs, compared)]
    parts += [_claim(one, len(runs), several.get(one.first.claim.name)) for one in claims if one.numbers]
    if several:
        parts.append(beside(compared, runs))
    waiting = [one.first for one in claims if not one.numbers]
    if waiting:
        parts.append(_waiting(waiting))
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _runs(runs: Sequence[RunView]) -> str:
    rows = [
        [
            str(number), run.date, str(run.machine.get("gpu_name") or "none"),
            str(run.machine.get("gpu_driver") or "none"), str(run.machine.get("torch") or "unknown"),
            str(run.machine.get("cpu_model") or "unknown"), run.origin or "measured", f"`{run.file}`",
            *([_used(run)] if len(runs) > 1 else ()),
        ]
        for number, run in enumerate(runs, start=1)
    ]  # fmt: skip
    titles = ["run", "date", "GPU", "driver", "torch", "CPU", "times", "raw turns"]
    if len(runs) == 1:
        told = f"Made with `{runs[0].command}`. The repetition on another machine is still to come."
    else:
        titles.append("claims used")
        told = " ".join(f"{_which(runs, command)} made with `{command}`." for command in _commands(runs))
    return f"## Runs\n\n{table(titles, rows)}\n\n{filled(told)}\n"


def _used(run: RunView) -> str:
    """Which of a run's claims stand on the page."""
    count = sum(judged.verdict.code != "not_run" for judged in run.judged)
    return f"{count}; {', '.join(run.earlier)} by an earlier spec: not used" if run.earlier else str(count)


def _commands(runs: Sequence[RunView]) -> list[str]:
    return list(dict.fromkeys(run.command for run in runs))


def _which(runs: Sequence[RunView], command: str) -> str:
    """`Runs 1 and 2 were`."""
    numbers = [str(number) for number, run in enumerate(runs, start=1) if run.command == command]
    return f"Run {numbers[0]} was" if len(numbers) == 1 else f"Runs {joined(numbers)} were"


def _claim(one: ClaimRuns, runs: int, compared: ComparedClaim | None) -> str:
    """Its title says what all runs say together, where there are several."""
    claim, verdict = one.first.claim, one.first.verdict if compared is None else compared.together
    lines = [
        f"## {claim.name}: {CODES[verdict.code]}", "", filled(claim.sentence), "",
        filled(f"- Arms: {claim.arms}", "  "), filled(f"- Workload: {claim.workload}", "  "),
        *([filled(f"- Behind it: {claim.note}", "  ")] if claim.note else ()),
        f"- Command: `perf sweep examples/claims/{claim.spec}`",
        *([f"- Run: {one.numbers[0]}"] if runs > 1 else ()), *_found(one.first),
    ]  # fmt: skip
    for number, again in zip(one.numbers[1:], one.found[1:], strict=True):
        lines += [f"Run {number}", "", *_found(again)]
    return "\n".join(lines)


def _found(judged: JudgedClaim) -> list[str]:
    """What one run says of the claim."""
    rows = [_row(one, name_words(one), _state(one), judged.launches) for one in judged.findings]
    rows += [[*_row(one, f"premise: {one.finding.name}", "")[:3], "", "", _met_in(one)]
             for one in judged.premises]  # fmt: skip
    titles = ("figure", "claimed", "measured (95 %)", "half-width", "expected", "")
    return [
        f"- Launches: {_launches(judged)}", f"- Verdict: {CODES[judged.verdict.code]}", *part_lines(judged.verdict), "",
        table(titles, rows), "",
    ]  # fmt: skip


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
    lines = [filled(f"- {one.claim.name}: {one.claim.sentence} ({one.claim.arms})", "  ") for one in waiting]
    return "\n".join(["## Not yet run", "", *lines, ""])
