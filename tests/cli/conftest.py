from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest
from stepscope.cli.main import main

from .in_process import no_processes


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Perf = Callable[..., Ended]


@pytest.fixture
def here() -> Iterator[pytest.MonkeyPatch]:
    """Sweeps measure in this process."""
    with no_processes() as patch:
        yield patch


@pytest.fixture
def perf(capsys: pytest.CaptureFixture[str]) -> Perf:
    """`perf("sweep", "--dry-run")` in this process."""

    def call(*arguments: str | Sequence[str]) -> Ended:
        code = main([str(argument) for argument in arguments])
        told = capsys.readouterr()
        return Ended(code, told.out, told.err)

    return call
