"""The correction kernel against NumPy. On a GPU directly; elsewhere through test_triton_interpreted.py."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from stepscope.runner.speculation.device_correction import FlightTensors, correct_on_host
from stepscope.runner.speculation.flight_map import FlightMap

pytest.importorskip("triton")
ON_GPU = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
pytestmark = pytest.mark.skipif(not (ON_GPU or INTERPRETED), reason="see test_triton_interpreted.py")


def random_flight(rng, k):
    """A step of up to 9 decodes, some of which go on from rows of the step before in another order."""
    rows, before = int(rng.integers(1, 10)), 12
    drafts = rng.integers(0, k + 1, size=rows).astype(np.int32)
    places = np.cumsum(drafts + 1) - 1 - drafts
    live = np.flatnonzero(rng.random(rows) < 0.8)
    if not live.size:
        live = np.arange(rows)
    sources = rng.permutation(before)[: live.size]
    verified = rng.integers(0, k + 1, size=live.size).astype(np.int32)
    sampled = np.full((before, k + 1), -1, dtype=np.int32)
    for source, most in zip(sources, verified, strict=True):
        count = rng.integers(1, most + 2)
        sampled[source, :count] = rng.integers(0, 500, size=count)
    proposed = rng.integers(-1, 500, size=(before, k)).astype(np.int32)
    flight = FlightMap(live, places[live], sources, verified, drafts[live])
    table = np.zeros(5 * rows, dtype=np.int32)
    flight.write(table)
    tokens = int((drafts + 1).sum())
    arrays = (
        table, sampled, proposed, rng.integers(0, 500, size=tokens + 4).astype(np.int32),
        rng.integers(50, 900, size=tokens + 4), rng.integers(50, 900, size=rows).astype(np.int32),
        np.full(rows * k + 3, -1, dtype=np.int32),
    )  # fmt: skip
    return flight.count, FlightTensors(*(torch.from_numpy(array) for array in arrays))


@pytest.mark.parametrize("k", [1, 3, 4, 7])
def test_equals_the_plain_words(k):
    from stepscope.runner.kernels.draft_counts import correct_counts

    rng = np.random.default_rng(k)
    for _ in range(12 if ON_GPU else 5):  # a program costs milliseconds in the interpreter
        count, tensors = random_flight(rng, k)
        fields = tensors.__slots__
        ours = replace(tensors, **{name: getattr(tensors, name).clone().to(DEVICE) for name in fields})
        correct_on_host(tensors, count)
        correct_counts(*(getattr(ours, name) for name in fields), count)
        for name in fields:
            assert getattr(ours, name).cpu().tolist() == getattr(tensors, name).tolist(), name
