"""perf verify: a table, and 1 when a check fails."""

from __future__ import annotations

from collections.abc import Callable


def test_a_group_passes_with_a_table(perf: Callable[..., object]) -> None:
    ended = perf("verify", "padding", "--device", "sim", "--quick", "--seed", "3")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("verify padding on sim, seed 3, quick\n")
    assert "planted" in ended.out
    assert "tolerance" in ended.out
    assert ended.out.endswith("3 passed, 0 failed, 0 skipped\n")


def test_a_mutant_ends_with_1(perf: Callable[..., object]) -> None:
    ended = perf("verify", "padding", "--device", "sim", "--quick", "--mutant", "clamped")
    assert ended.code == 1
    assert "failed  padding waste" in ended.out
    assert ended.out.endswith("0 passed, 1 failed, 0 skipped\n")


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
