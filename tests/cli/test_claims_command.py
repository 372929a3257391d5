"""`perf claims`, from a sweep of a claim's spec to the page; and where the claim's device is absent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from stepscope.experiments.launches import tasks
from stepscope.experiments.store import PointResult, SweepStore
from stepscope.experiments.sweep import Request, plan_sweep
from stepscope.experiments.workers.measuring import measure_task

SPEC = """
claim: E7
workload: {regime: steady}
runner: {model: micro, max_num_batched_tokens: 2048, max_model_len: 256, num_blocks: 512}
device: cpu
measure:
  {interleave: token_gather, blocks: 2, block_steps: 3, settle_steps: 1, repeats: 2, resident: true, keep: blocks,
   device_events: false}
grid: {workload.settings.num_reqs: [1, 16], runner.token_gather: [index_select, cat]}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "e07.yaml"
    path.write_text(SPEC)
    return path


@pytest.mark.usefixtures("here")
def test_a_sweep_of_a_claim_becomes_a_page(perf: Callable[..., object], spec: Path, tmp_path: Path) -> None:
    # GIVEN a claim's spec on a machine without a GPU, its device named
    assert perf("sweep", spec, "--out", tmp_path / "sweep").code == 0
    # WHEN the page is made
    page = perf("claims", tmp_path / "sweep")
    # THEN it says what the times are of, judges what was measured, and leaves null what was not
    assert page.code == 0
    assert "measured on cpu: times of a host alone" in page.out
    assert "| index building, cat - index_select, 16 rows, a core at full speed *(host)* | 0 us or more |" in page.out
    missing = "null: arm cat was measured with workload.settings.num_reqs 1, not 256; run its spec again"
    name = "index building, cat - index_select, 256 rows, a slowed core *(host)*"
    assert f"| {name} | 200 us or more | {missing} |" in page.out
    assert "| E1 |" in page.out
    # AND the stored run gives the same page, but for its own name
    stored = tmp_path / "run.json"
    assert perf("claims", tmp_path / "sweep", "--store", stored).out == f"raw turns: {stored}\n"
    again = page.out.replace("h200/sweep ", "h200/run.json ").replace("`sweep`", "`run.json`")
    assert perf("claims", stored).out == again
    assert perf("claims", stored, stored, "--out", tmp_path / "claims.md").out == f"page: {tmp_path / 'claims.md'}\n"
    assert "\n| 1 and 2 | 1 of 1 claims | 1 of 1 claims |" in (tmp_path / "claims.md").read_text()
    # AND there may be as many runs as there are machines
    three = perf("claims", *[stored] * 3)
    assert three.code == 0
    assert [f"\n| {runs} | 1 of 1 claims |" in three.out for runs in ("1 and 2", "1 and 3", "2 and 3")] == [True] * 3


@pytest.mark.skipif(torch.cuda.is_available(), reason="its device is here")
def test_a_claim_whose_device_is_absent_is_null_with_the_reason(
    perf: Callable[..., object], spec: Path, tmp_path: Path
) -> None:
    # GIVEN arms that need a GPU, and a worker that has none
    spec.write_text(SPEC.replace("device: cpu", "device: cuda"))
    store = SweepStore.create(tmp_path / "sweep", plan_sweep(Request([spec])))
    for task in tasks(store.plan.points):
        for point, outcome in zip(task.points, measure_task(task, tmp_path / "work", lambda: False), strict=True):
            store.finish(store.begin(point), PointResult(point, outcome.status, outcome.reason), {})
    # THEN the claim is null, and says why
    told = "- Verdict: not measured\n  - arm cat: device 'cuda' needs an NVIDIA GPU"
    assert told in perf("claims", tmp_path / "sweep").out
    # AND without a claim such a spec is refused before anything runs
    spec.write_text(SPEC.replace("device: cpu", "device: cuda").replace("claim: E7\n", ""))
    refused = perf("sweep", spec, "--out", tmp_path / "other")
    assert refused.code == 2
    assert "device 'cuda' needs an NVIDIA GPU" in refused.err


def test_errors_are_one_line(perf: Callable[..., object], tmp_path: Path) -> None:
    absent = perf("claims", tmp_path / "absent.json")
    assert absent.code == 2
    assert absent.err.count("\n") == 1
