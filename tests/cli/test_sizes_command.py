"""perf sizes: a list that can be pasted, and its judgement."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

SPEC = """\
workload: {generator: {num_requests: 30, prompt: {kind: fixed, value: 7}, output: {kind: uniform, low: 2, high: 30}}}
runner: {max_num_seqs: 16, max_num_batched_tokens: 64}
"""


def test_a_list_for_each_engine(perf: Callable[..., object], tmp_path: Path) -> None:
    spec = tmp_path / "mine.yaml"
    spec.write_text(SPEC)
    ended = perf("sizes", spec, "--budget", "4", "--drafts", "1")
    assert ended.code == 0, ended.err
    sizes = json.loads(re.search(r"--compilation-config '(.*)'", ended.out)[1])["cudagraph_capture_sizes"]
    assert len(sizes) <= 4
    assert all(size % 2 == 0 for size in sizes)
    halves = [size // 2 for size in sizes]  # the other two count requests, each of which decodes two tokens
    assert f"SGLang: --cuda-graph-bs {' '.join(map(str, halves))}\n" in ended.out
    assert f"cuda_graph_config: {{enable_padding: true, batch_sizes: {halves}}}" in ended.out
    # AND it says what is modelled, what is null and why, and that nothing was run
    assert "modelled: scheduler only" in ended.out
    assert "null: no capture was measured in this recording" in ended.out
    assert re.search(r"predicted saving against vllm: \S+ \S+ a step \(.*95 %\), .* of T, n = \d+ steps", ended.out)
    assert "\nnot measured: --run STEPS measures it\n" in ended.out


def test_a_recording_of_ours(perf: Callable[..., object]) -> None:
    folder = Path(__file__).resolve().parents[2] / "examples" / "recordings" / "h200" / "decode"
    ended = perf("sizes", folder)
    assert ended.code == 0, ended.err
    assert "steps: recorded on cuda" in ended.out
    # AND where every step has 64 rows no list is better than the one in use, and nothing is there to paste
    assert "no list of at most 19 sizes is better than the one in use (vllm); keep it\n  1 2 4 8 16 24 " in ended.out
    assert "capture 19 sizes" not in ended.out
    assert "--cuda-graph-bs" not in ended.out
    assert "cudagraph_capture_sizes" not in ended.out


def test_what_is_not_there(perf: Callable[..., object], tmp_path: Path) -> None:
    ended = perf("sizes", tmp_path / "absent.csv")
    assert (ended.code, ended.out) == (2, "")
    assert "no such file or folder" in ended.err


def test_a_what_if_is_checked_with_the_recording_as_the_spec(perf: Callable[..., object], tmp_path: Path) -> None:
    spec = tmp_path / "mine.yaml"
    spec.write_text(SPEC + "device: sim\nmeasure: {steps: 4}\n")
    assert perf("run", spec, "--out", tmp_path / "run").code == 0
    # WHEN the command that the what-if table names is run with the run's folder in the place of RECORDING
    axis = ("--param", "ring_slots=2,4", "--param", "interleave=ring_slots")
    ended = perf("sweep", tmp_path / "run", *axis, "--dry-run")
    assert ended.code == 0, ended.err
    assert "2 points" in ended.out
