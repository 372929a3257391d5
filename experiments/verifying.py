"""`perf verify`'s work: run the checks on a device and say how they ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import UsageError
from ..reports.verify_text import VerifyCheck, VerifyRow, render_check, render_counts, render_mutant
from ..runner.models.weights import shared_weights
from .resolve import check_device, default_device
from .verify.check import Check, Result, Setting
from .verify.run import chosen_checks, run_check, with_mutant

DEVICES = ("cpu", "sim", "cuda")
ALL_MUTANTS = "all"
DAY_S = 86_400
Say = Callable[[str], None]
"""Hears a few lines as soon as they are known."""


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """quick: fewer cases;  seconds: of checks that last;  mutant: its name, or `all`, or None."""

    quick: bool = False
    seconds: float = 20.0
    mutant: str | None = None


def verify(
    names: Sequence[str], device: str | None, *, seeds: Sequence[int], options: VerifyOptions, say: Say
) -> int:
    """Run the groups or checks `names` with each seed, `say` each as it is done; 1 when one failed, else 0.

    A check that no seed decides anything of runs once. With a mutant the checks that have it run with it planted; with
    `all` every check runs with each of its own, and 1 means that one survived. Raises UsageError for an unknown name,
    device or mutant.
    """
    chosen = device if device not in (None, "auto") else default_device()
    if chosen not in DEVICES:
        raise UsageError(f"--device: unknown value {chosen!r}; known are auto, {', '.join(DEVICES)}")
    check_device(chosen)  # before a check that needs no GPU has taken its time
    if not 0 < options.seconds <= DAY_S:
        raise UsageError(f"--seconds: {options.seconds:g} is not above 0 and within a day ({DAY_S})")
    quick, mutant = options.quick, options.mutant
    settings = [Setting(device=str(chosen), seed=seed, quick=quick, seconds=options.seconds) for seed in seeds]
    checks = chosen_checks(names)
    if mutant not in (None, ALL_MUTANTS):
        checks = with_mutant(checks, str(mutant))
    said = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}{', quick' * quick}{_planted(mutant)}"
    say(f"verify {' '.join(names)} on {chosen}, {said}\n")
    with shared_weights():  # several checks run a model that takes seconds to make
        if mutant == ALL_MUTANTS:
            return _all_mutants(checks, settings[0], say)
        return _checks(checks, settings, mutant, say)


def _planted(mutant: str | None) -> str:
    if mutant is None:
        return ""
    what = "each mutant planted in turn" if mutant == ALL_MUTANTS else f"mutant {mutant} planted"
    return f", {what}: every check below must fail"


def _all_mutants(checks: Sequence[Check], setting: Setting, say: Say) -> int:
    verdicts = []
    for check in checks:
        for name in check.mutants:
            result, seconds = _timed(check, setting, name)
            verdicts.append({"failed": "killed", "passed": "SURVIVED"}.get(result.verdict, result.verdict))
            say(render_mutant(f"{check.group} {check.name}", name, verdicts[-1], seconds, _killed_by(result)))
    say(render_counts(verdicts, ("killed", "SURVIVED", "skipped")))
    return int("SURVIVED" in verdicts)


def _killed_by(result: Result) -> str:
    """The first finding that failed, or what broke down or was missing."""
    failed = (f"{found.found}: {found.planted}" for found in result.findings if not found.passed)
    return next(failed, result.reason)


def _checks(checks: Sequence[Check], settings: Sequence[Setting], mutant: str | None, say: Say) -> int:
    verdicts = []
    for check in checks:
        for setting in settings if check.seeded else settings[:1]:
            result, seconds = _timed(check, setting, mutant)
            seed = setting.seed if check.seeded and len(settings) > 1 else None
            verdicts.append(result.verdict)
            say(render_check(_as_text(result, seconds, seed)))
    say(render_counts(verdicts, ("passed", "failed", "skipped")))
    return int("failed" in verdicts)


def _timed(check: Check, setting: Setting, mutant: str | None) -> tuple[Result, float]:
    began = time.perf_counter()
    result = run_check(check, setting, mutant)
    return result, time.perf_counter() - began


def _as_text(result: Result, seconds: float, seed: int | None) -> VerifyCheck:
    rows = [
        VerifyRow(found.planted, found.found, found.tolerance, "passed" if found.passed else "failed")
        for found in result.findings
    ]
    check = result.check
    return VerifyCheck(check.group, check.name, result.verdict, result.reason, seconds, rows, seed)
