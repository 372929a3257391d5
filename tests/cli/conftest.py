from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from stepscope.cli.main import main


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Perf = Callable[..., Ended]


@pytest.fixture
def perf(capsys: pytest.CaptureFixture[str]) -> Perf:
    """`perf("sweep", "--dry-run")` in this process."""

    def call(*arguments: str | Sequence[str]) -> Ended:
        code = main([str(argument) for argument in arguments])
        told = capsys.readouterr()
        return Ended(code, told.out, told.err)

    return call
