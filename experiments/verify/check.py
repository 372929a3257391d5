"""What a check is: it plants what it knows, lets the tool look, and compares. Its mutants show that it can fail."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How checks are run.

    device   where device work runs: cpu, sim or cuda
    seed     of everything that is planted
    quick    fewer cases, the same tolerances
    seconds  how long checks that last may last
    """

    device: str
    seed: int = 0
    quick: bool = False
    seconds: float = 20.0

    def random(self, name: str) -> random.Random:
        """A stream of its own for the check `name`."""
        return random.Random(f"{self.seed}/{name}")

    def count(self, full: int, quick: int) -> int:
        """How many cases."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One comparison: what was planted, what was found, what would still pass."""

    planted: str
    found: str
    tolerance: str
    passed: bool


Mutant = Callable[[], AbstractContextManager[None]]
"""Makes the tool wrong, inside the context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check of one group.

    point    number of what has to hold, in the table of docs/verify.md
    run      findings, or in one line why nothing could be checked here
    needs    devices that it runs on; none: any, and none is used
    why      what is missing elsewhere
    seeded   whether the seed decides anything: a check without it runs once for all seeds
    """

    group: str
    name: str
    point: int
    run: Callable[[Setting], Sequence[Finding] | str]
    mutants: Mapping[str, Mutant]
    needs: tuple[str, ...] = ()
    why: str = ""
    seeded: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """A check that was run, or was not, with `reason`."""

    check: Check
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    reason: str = ""


def replaced(module: str, name: str, make: Callable[[Any], Any]) -> Mutant:
    """A mutant: the attribute `name` (dotted for a class's) of one of our modules gives way to `make(original)`."""

    @contextmanager
    def planted() -> Iterator[None]:
        owner: Any = importlib.import_module(f"{__package__.rpartition('.experiments')[0]}.{module}")
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, part)
        original = vars(owner)[last]
        setattr(owner, last, make(original))
        try:
            yield
        finally:
            setattr(owner, last, original)

    return planted


def together(*mutants: Mutant) -> Mutant:
    """One mutant of several replacements: where devices have each their own code for the same."""

    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as stack:
            for mutant in mutants:
                stack.enter_context(mutant())
            yield

    return planted


def exact(planted: str, expected: object, found: object) -> Finding:
    """A finding that must be equal."""
    return Finding(planted=planted, found=str(found), tolerance=f"exactly {expected}", passed=expected == found)


def within(planted: str, found: float, low: float, high: float, unit: str = "") -> Finding:
    """A finding that must lie in a range, borders included."""
    end = f" {unit}" if unit else ""
    return Finding(
        planted=planted, found=f"{found:.6g}{end}", tolerance=f"{low:g} to {high:g}{end}", passed=low <= found <= high
    )  # fmt: skip
