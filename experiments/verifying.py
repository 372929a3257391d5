"""`perf verify`'s work: run the checks on a device and say how they ended."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..errors import UsageError
from ..reports.verify_text import VerifyCheck, VerifyRow, render_verify
from .resolve import default_device
from .verify.check import Result, Setting
from .verify.run import chosen_checks, run_check, with_mutant

DEVICES = ("cpu", "sim", "cuda")


@dataclass(frozen=True, slots=True)
class VerifyOutcome:
    """What to print, and 1 when a check failed."""

    text: str
    exit_code: int


def verify(
    group: str, device: str | None, *, seed: int, quick: bool, seconds: float, mutant: str | None
) -> VerifyOutcome:
    """Run `group` (or all); with `mutant` the checks that have one of that name, each with it planted.

    Raises UsageError for an unknown group, device or mutant.
    """
    chosen = device if device not in (None, "auto") else default_device()
    if chosen not in DEVICES:
        raise UsageError(f"--device: unknown value {chosen!r}; known are auto, {', '.join(DEVICES)}")
    if seconds <= 0:
        raise UsageError(f"--seconds: {seconds} is not above 0")
    setting = Setting(device=str(chosen), seed=seed, quick=quick, seconds=seconds)
    checks = chosen_checks(group)
    meant = checks if mutant is None else with_mutant(checks, mutant)
    shown = []
    for check in meant:
        began = time.perf_counter()
        shown.append(_shown(run_check(check, setting, mutant), time.perf_counter() - began))
    planted = f", mutant {mutant} planted: every check below must fail" if mutant else ""
    heading = f"verify {group} on {chosen}, seed {seed}{', quick' if quick else ''}{planted}"
    return VerifyOutcome(render_verify(shown, heading), int(any(check.verdict == "failed" for check in shown)))


def _shown(result: Result, seconds: float) -> VerifyCheck:
    rows = [
        VerifyRow(found.planted, found.found, found.tolerance, "passed" if found.passed else "failed")
        for found in result.findings
    ]
    check = result.check
    return VerifyCheck(check.group, check.name, check.review, result.verdict, result.reason, seconds, rows)
