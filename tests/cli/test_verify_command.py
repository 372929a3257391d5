"""perf verify: a table, and 1 when a check fails."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest


def test_a_group_passes_with_a_table(perf: Callable[..., object]) -> None:
    ended = perf("verify", "waste", "corridor", "--device", "sim", "--quick", "--seed", "3", "--seed", "4")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("verify waste corridor on sim, seeds 3, 4, quick\n")
    assert "planted" in ended.out
    assert "tolerance" in ended.out
    # THEN one ran with either seed, the other, which no seed decides anything of, is told once
    assert re.search(r"^passed  padding waste, seed 4  \(\d+\.\d s\)$", ended.out, re.MULTILINE)
    assert ended.out.endswith("2 passed, 0 failed, 1 skipped\n")


def test_a_mutant_ends_with_1(perf: Callable[..., object]) -> None:
    ended = perf("verify", "padding", "--device", "sim", "--quick", "--mutant", "clamped")
    assert ended.code == 1
    assert "failed  padding waste" in ended.out
    assert ended.out.endswith("0 passed, 1 failed, 0 skipped\n")


def test_all_mutants_end_with_0_when_each_is_killed(
    perf: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = perf("verify", "waste", "integers", "measured", "--device", "sim", "--quick", "--mutant", "all")
    assert ended.code == 0
    assert "killed    padding waste               clamped" in ended.out
    assert "s  0: 50 steps padded to a size that is faster: time waste, ns\n" in ended.out
    assert ended.out.endswith("2 killed, 0 SURVIVED, 1 skipped\n")
    # AND with 1 when one survives
    from stepscope.experiments import verifying
    from stepscope.experiments.verify.check import Result

    monkeypatch.setattr(verifying, "run_check", lambda check, *rest: Result(check, "passed"))
    ended = perf("verify", "waste", "--device", "sim", "--quick", "--mutant", "all")
    assert (ended.code, "SURVIVED" in ended.out) == (1, True)


def test_what_needs_a_gpu_is_skipped_with_the_reason(perf: Callable[..., object]) -> None:
    ended = perf("verify", "pinned", "--device", "cpu", "--quick")
    assert ended.code == 0
    assert "skipped pinned observed" in ended.out
    assert "needs cuda: its truth is a GPU's own" in ended.out


def test_bad_input(perf: Callable[..., object]) -> None:
    assert perf("verify", "padding", "--mutant", "no_such").code == 2
    assert perf("verify", "everything").code == 2
    assert perf("verify", "--device", "tpu").code == 2
    assert perf("verify", "--seconds", "0").code == 2
