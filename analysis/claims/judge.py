"""From figures to a verdict.

A finding is over launches: the mean and Student's 95 % interval. Against the range that the claim says:

    claim says      |--------|
    interval          |---|         met: within
                  |---|             met: its middle is within, and it is short
               |---|                open: the middle is not, though they overlap
         |--------------------|     open: wider than that, and not within
          |---|                     broken: wholly outside

Narrow is what keeps to its bound (`figures`), and of a time one whose half-width is at most 5 us or 2 % of the figure
itself: 2 % of the periods behind a difference may be more than all of it.

A figure of the host is judged at each speed of the core by itself (`core_speed`). A part of the claim is one finding:

    met at one speed, broken at none       the part is met           broken at one, met at none     it is broken
    met at one and broken at the other     two parts, each with its speed                           else it is open

All parts met: the claim holds. Some met: it holds where they are. None met and some broken: it does not hold. Otherwise
it is undecided.

A premise is asked of each launch: one that does not meet it is left out, because it measured something else. Where most
launches are, or where no launch measured it, the claim is undecided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..blocks import Interval, over_launches
from .claim import Claim, Finding
from .core_speed import SPEEDS, Speed, at_speed
from .figures import mean, time_allowed
from .points import ClaimData

State = Literal["met", "broken", "open", "shown", "unmeasured"]
SPEED_WORDS: dict[Speed, str] = {"full": "a core at full speed", "slowed": "a slowed core"}
Code = Literal["holds", "holds_where", "does_not_hold", "undecided", "unmeasured", "not_run"]


@dataclass(frozen=True, slots=True)
class Judged:
    """One finding, for a figure of the host at one speed of the core.

    interval   None where no launch has a value; `reason` then says why
    allowed    half-width that the interval may have, None: any;  precise  whether it keeps to it (None: none asked)
    same       what two runs compare of it, by launch: the same values, or for a figure of the host the arms' ratio
    speed      the core's; None: not asked
    """

    finding: Finding
    state: State
    interval: Interval | None
    by_launch: tuple[float, ...] = ()
    allowed: float | None = None
    precise: bool | None = None
    same: tuple[float, ...] = ()
    reason: str = ""
    speed: Speed | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`where` and `not_where` name the findings that are met and broken, `open` the others; `reason` is in words."""

    code: Code
    where: tuple[str, ...] = ()
    not_where: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    reason: str = ""

    @property
    def same_as(self) -> tuple[object, ...]:
        """What two runs must have in common to have the same verdict."""
        return self.code, self.where


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """A claim with what was found."""

    claim: Claim
    verdict: Verdict
    findings: tuple[Judged, ...] = ()
    premises: tuple[Judged, ...] = ()
    left_out: tuple[int, ...] = ()
    """Launches that did not meet a premise."""
    launches: int = 0
    """The others that were measured."""


def judge(claim: Claim, data: ClaimData) -> JudgedClaim:
    """The claim in the light of `data`, which is its own points."""
    if not claim.findings or not data.points:
        return JudgedClaim(claim, Verdict("not_run"))
    if claim.one_runner:
        data = ClaimData([replace(point, visit=None) for point in data.points])
    launches = {point.launch for point in data.points}
    left_out = {launch for launch in launches for premise in claim.premises if _fails(premise, data, launch)}
    premises = tuple(judge_finding(premise, data) for premise in claim.premises)
    unmet = _never_measured(claim, data)
    missed = any(_mostly_missed(premise, data) for premise in claim.premises)
    if not unmet and (missed or _too_few(launches - left_out, launches)):
        unmet = f"its premise is not met: {_unmet(claim, data)}"
    if unmet:
        left_out = set()
    kept = ClaimData([point for point in data.points if point.launch not in left_out])
    of_speed = _speeds(kept)
    findings = tuple(
        judged for finding in claim.findings
        for judged in (_at_each_speed(finding, of_speed) if finding.bound == "host" and of_speed
                       else [judge_finding(finding, kept)])
    )  # fmt: skip
    measured = len({point.launch for point in kept.points if point.turns})
    return JudgedClaim(claim, verdict_of(findings, unmet), findings, premises, tuple(sorted(left_out)), measured)


def _speeds(data: ClaimData) -> dict[Speed, ClaimData]:
    """What was measured at each speed of the core; empty where it was not gauged."""
    if all(turn.pace is None for point in data.points for turn in point.turns):
        return {}
    return {speed: ClaimData(at_speed(data.points, speed), SPEED_WORDS[speed]) for speed in SPEEDS}


def _at_each_speed(finding: Finding, of_speed: dict[Speed, ClaimData]) -> list[Judged]:
    return [replace(judge_finding(finding, data), speed=speed) for speed, data in of_speed.items()]


def _fails(premise: Finding, data: ClaimData, launch: int) -> bool:
    """Whether a launch measured something else; one that has no such figure says nothing against itself."""
    value = premise.figure.by_launch(data).get(launch)
    return value is not None and not premise.allows(value, value)


def _never_measured(claim: Claim, data: ClaimData) -> str:
    """Of a premise that no launch has a figure of, in words: nobody knows whether it is met; empty where all have."""
    gone = next((premise for premise in claim.premises if not premise.figure.by_launch(data)), None)
    return "" if gone is None else f"its premise was not measured: {gone.name} ({gone.figure.missing(data)})"


def _mostly_missed(premise: Finding, data: ClaimData) -> bool:
    """Whether most of the launches that have a figure miss it; those that have none do not speak for it."""
    values = premise.figure.by_launch(data).values()
    return 2 * sum(not premise.allows(value, value) for value in values) > len(values)


def _too_few(kept: set[int], all_of_them: set[int]) -> bool:
    return 2 * len(kept) < len(all_of_them)


def _unmet(claim: Claim, data: ClaimData) -> str:
    """The premise that is missed by most, in words."""
    for premise in claim.premises:
        level = mean(premise.figure.by_launch(data))
        if level is not None and not premise.allows(level, level):
            return premise.name
    return claim.premises[0].name


def judge_finding(finding: Finding, data: ClaimData) -> Judged:
    """One figure over launches, against its range."""
    found = finding.figure.by_launch(data)
    values = tuple(found[launch] for launch in sorted(found))
    interval = over_launches(values)
    if interval is None:
        return Judged(finding, "unmeasured", None, reason=finding.figure.missing(data))
    allowed = finding.figure.allowed(data)
    half = half_width(interval)
    precise = None if allowed is None else half is not None and half <= allowed
    ratios = None if finding.same is None else finding.same.by_launch(data)
    same = values if ratios is None else tuple(ratios[launch] for launch in sorted(ratios))
    return Judged(finding, state_of(finding, interval, precise), interval, values, allowed, precise, same)


def half_width(interval: Interval) -> float | None:
    """Half of the interval; None with a single launch."""
    return None if interval.low is None or interval.high is None else (interval.high - interval.low) / 2


def state_of(finding: Finding, interval: Interval, precise: bool | None) -> State:
    """What the interval says of the range that is claimed. `precise`: half of it is within its bound."""
    if not finding.judges:
        return "shown"
    if interval.low is None or interval.high is None:
        return "open"
    below = finding.low is not None and interval.high < finding.low
    above = finding.high is not None and interval.low > finding.high
    if below or above:
        return "broken"
    known = precise and _short(interval, finding) and finding.allows(interval.mean, interval.mean)
    return "met" if known or finding.allows(interval.low, interval.high) else "open"


def _short(interval: Interval, finding: Finding) -> bool:
    """Whether the interval says where its middle is, and not only how long the steps behind it are."""
    half = half_width(interval)
    if half is None or _wider(interval, finding):
        return False
    return finding.figure.unit != "ns" or half <= time_allowed(interval.mean)


def _wider(interval: Interval, finding: Finding) -> bool:
    """Whether the interval is wider than what the claim says, where that has two ends."""
    if finding.low is None or finding.high is None or interval.low is None or interval.high is None:
        return False
    return interval.high - interval.low > finding.high - finding.low


def verdict_of(findings: Sequence[Judged], unmet: str) -> Verdict:
    """The claim's verdict. `unmet`: why nothing can be said, in words; empty where it can."""
    judging = [judged for judged in findings if judged.finding.judges]
    if all(judged.state == "unmeasured" for judged in judging):
        return Verdict("unmeasured", reason=judging[0].reason if judging else "")
    if unmet:
        return Verdict("undecided", reason=unmet)
    parts = parts_of(judging)
    met, broken = (tuple(name for name, state in parts if state == wanted) for wanted in ("met", "broken"))
    rest = tuple(name for wanted in ("open", "unmeasured") for name, state in parts if state == wanted)
    return Verdict(_code(met, broken, rest), met, broken, rest)


def parts_of(judging: Sequence[Judged]) -> list[tuple[str, State]]:
    """The claim's parts by name, and what was found of each."""
    parts: list[tuple[str, State]] = []
    for name, speeds in by_part(judging).items():
        states = {judged.state for judged in speeds}
        if {"met", "broken"} <= states:
            parts += [(f"{name} (on {SPEED_WORDS[one.speed]})", one.state) for one in speeds if one.speed is not None]
        else:
            parts.append((name, next(state for state in _STRONGEST if state in states)))
    return parts


def by_part(judging: Sequence[Judged]) -> dict[str, list[Judged]]:
    """Name of a part -> the finding, once for each speed."""
    found: dict[str, list[Judged]] = {}
    for judged in judging:
        found.setdefault(judged.finding.where or judged.finding.name, []).append(judged)
    return found


_STRONGEST: tuple[State, ...] = ("met", "broken", "open", "unmeasured")


def _code(met: Sequence[str], broken: Sequence[str], rest: Sequence[str]) -> Code:
    if met and not broken and not rest:
        return "holds"
    if met:
        return "holds_where"
    return "does_not_hold" if broken else "undecided"
