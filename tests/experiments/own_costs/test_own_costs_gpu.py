"""A run on a GPU measures what padding its own shapes costs, after its last step."""

from __future__ import annotations

import pytest
import torch
from stepscope.analysis.padding import padding
from stepscope.experiments.measure import measure
from stepscope.experiments.plan import make_plan

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]


@pytest.mark.parametrize("mode", ["full", "piecewise"])
def test_a_padded_decode_is_timed_at_both_sizes(tmp_path, mode) -> None:
    # GIVEN twelve requests at a captured size of 16
    tree = {
        "workload": {"regime": "steady", "settings": {"num_reqs": 12}},
        "runner": {"graph_mode": mode, "capture_sizes": [8, 16], "model": "tiny"},
        "device": "cuda", "measure": {"warmup_steps": 3, "steps": 30},
    }  # fmt: skip
    (point,) = make_plan([("test", tree)], {}).points
    # WHEN the run ends
    recording = measure(point.spec, tmp_path / "recording").recording
    # THEN its padding has a time of its own, with kernel names
    found = padding(recording)
    assert found.origin == "measured in the run"
    assert found.timed_steps == found.replayed_steps > 20
    assert found.replay_saving_ns is not None
    assert found.sizes["other_kernels"].notna().all()
    keys = set(recording.tables["calibration"].query("name == 'replay_ns'")["key"])
    assert keys == {f"{mode}/16/12", f"{mode}/12/12"}
