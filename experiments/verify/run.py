"""All checks, and how one is run: as it is, or with a mutant planted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from ...errors import StepscopeError, UsageError
from ..typed import unknown
from . import (
    bound,
    bound_gpu,
    cells,
    copies_gpu,
    device_tables,
    overlap,
    padding,
    padding_runs,
    pinned,
    pinned_gpu,
    recorder,
    recorder_files,
    recorder_gpu,
    runner,
)
from .check import Check, Result, Setting

ALL = "all"
GROUPS = ("recorder", "overlap", "pinned", "padding", "runner")
_PARTS = (
    recorder, recorder_files, recorder_gpu, overlap, bound, copies_gpu, cells, bound_gpu, pinned, device_tables,
    pinned_gpu, padding, padding_runs, runner,
)  # fmt: skip
CHECKS: tuple[Check, ...] = tuple(
    sorted((check for part in _PARTS for check in part.CHECKS), key=lambda check: GROUPS.index(check.group))
)


def chosen_checks(names: Sequence[str]) -> tuple[Check, ...]:
    """The checks of the groups, and those named themselves, or all. Raises UsageError for an unknown name."""
    known = (ALL, *GROUPS, *(check.name for check in CHECKS))
    for name in names:
        if name not in known:
            raise unknown("group or check", name, known, "verify")
    return tuple(check for check in CHECKS if {ALL, check.group, check.name} & set(names))


def with_mutant(checks: Sequence[Check], mutant: str) -> tuple[Check, ...]:
    """Those that have a mutant of that name. Raises UsageError where none has."""
    meant = tuple(check for check in checks if mutant in check.mutants)
    if not meant:
        raise unknown("mutant", mutant, sorted({name for check in checks for name in check.mutants}), "--mutant")
    return meant


def run_check(check: Check, setting: Setting, mutant: str | None = None) -> Result:
    """Run one check, skipped with a reason where it needs another device. Raises UsageError for bad input, and whatever
    a mutant raises that cannot be planted: a check has not found what was not there.
    """
    if check.needs and setting.device not in check.needs:
        return Result(check, "skipped", reason=f"needs {' or '.join(check.needs)}: {check.why}")
    with check.mutants[mutant]() if mutant else nullcontext():
        return _run(check, setting)


def _run(check: Check, setting: Setting) -> Result:
    try:
        findings = check.run(setting)
    except UsageError:
        raise
    except StepscopeError as error:  # the tool itself says that something is wrong
        return Result(check, "failed", reason=str(error))
    except Exception as error:  # noqa: BLE001 - a tool that breaks down on what was planted has not passed
        return Result(check, "failed", reason=f"{type(error).__name__}: {error}")
    if isinstance(findings, str):
        return Result(check, "skipped", reason=findings)
    passed = bool(findings) and all(finding.passed for finding in findings)
    return Result(check, "passed" if passed else "failed", tuple(findings))
