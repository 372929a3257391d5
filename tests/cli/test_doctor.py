"""perf doctor: findings with verdicts, gaps with mends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from stepscope.experiments.doctor import examine as doctor
from stepscope.experiments.identity import identity
from stepscope.instrumentation.probe.native import EVENTS_SWITCH, SWITCH, look, native


def test_every_gap_comes_with_a_mend(tmp_path: Path) -> None:
    findings = doctor.examine(tmp_path)
    assert [finding.name for finding in findings if finding.verdict != "ok" and not finding.mend] == []
    assert {"python", "torch", "device", "calibration", "pinned memory", "Nsight Systems", "triton", "disk"} <= {
        finding.name for finding in findings
    }


def test_the_bundled_calibration_is_named(tmp_path: Path) -> None:
    (found,) = [finding.found for finding in doctor.examine(tmp_path) if finding.name == "calibration"]
    assert "H200" in found
    assert "llama-1b" in found


@pytest.mark.skipif(native() is None, reason="no C compiler, or no Python.h")
@pytest.mark.parametrize(
    ("switch", "language", "found"),
    [
        (None, "C", "in C ("), (EVENTS_SWITCH, "C, events in Python", f"events in Python: {EVENTS_SWITCH} is 0"),
        (SWITCH, "Python", f"{SWITCH} is 0"),
    ],
)  # fmt: skip
def test_what_the_probe_is_in_and_the_switch_that_has_it_so_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switch: str | None, language: str, found: str
) -> None:
    monkeypatch.delenv(EVENTS_SWITCH, raising=False)
    if switch:
        monkeypatch.setenv(switch, "0")
    look.cache_clear()
    (said,) = [finding for finding in doctor.examine(tmp_path) if finding.name == "probe"]
    told = identity({})["probe"]
    look.cache_clear()
    assert (said.verdict, told) == ("limited" if switch else "ok", language)
    assert found in said.found
    assert said.mend == (f"unset {switch}" if switch else "")


def test_a_full_disk_and_a_closed_folder_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "FREE_BYTES_WANTED", 1 << 62)
    assert doctor.examine(tmp_path / "new" / "deeper")[-1].verdict == "limited"
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)
    assert doctor.examine(tmp_path)[-1].verdict == "no"


def test_nsys_is_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nsys").write_text("#!/bin/sh\n")
    (tmp_path / "nsys").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [(f.verdict, f.found) for f in doctor.examine(tmp_path) if f.name == "Nsight Systems"] == [
        ("ok", str(tmp_path / "nsys"))
    ]


def test_the_command_prints_findings(perf: Callable[..., object], tmp_path: Path) -> None:
    assert "calibration" in perf("doctor", "--out", tmp_path).out
    ended = perf("doctor", "--json", "--out", tmp_path)
    assert {"name", "verdict", "found", "mend"} == set(json.loads(ended.out)[0])


def test_calibrating_without_a_gpu_is_one_line_and_exit_3(
    perf: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    ended = perf("doctor", "--calibrate", "--out", tmp_path / "made.json")
    assert ended.code == 3
    assert ended.out == ""
    assert ended.err.startswith("perf: doctor --calibrate: no usable NVIDIA GPU here")
    assert ended.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_calibrating_on_a_full_gpu_is_refused_before_anything_is_measured(
    perf: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (3 << 30, 80 << 30))
    ended = perf("doctor", "--calibrate", "--out", tmp_path / "made.json")
    assert ended.code == 3
    assert "3 GiB of GPU memory are free" in ended.err
