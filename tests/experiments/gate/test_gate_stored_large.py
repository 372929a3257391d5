"""Stored results of thousands of points, and of numbers of any size."""

from __future__ import annotations

import json

import pytest
from stepscope.analysis.gate.history import Result, judge_history
from stepscope.analysis.gate.history_share import judge_history_share
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.verdict import Reason, Verdict
from stepscope.analysis.history.series import Stored
from stepscope.experiments.gate import stored as gate_stored
from stepscope.experiments.gate.stored import HistoryRequest, gate_history

ENV = {"gpu": "NVIDIA H200", "driver": "550.54"}


class Counting(dict):
    """Values of which it is known how often all of them were gone through."""

    walks = 0

    def __iter__(self):
        Counting.walks += 1
        return super().__iter__()

    def items(self):
        Counting.walks += 1
        return super().items()


@pytest.mark.parametrize("num_points", [3, 40])
def test_a_result_is_gone_through_as_often_with_many_points_as_with_few(monkeypatch, tmp_path, num_points):
    """GIVEN ten stored results, WHEN judged, THEN the work grows as the points do: 10,000 of them took minutes."""
    results = [
        Result(ENV, Counting({(f"p{at}", "period_p50_ns"): 1000.0 + (7 * at + 3 * run) % 5 + run / 100
                              for at in range(num_points)}), {})
        for run in range(11)
    ]  # fmt: skip
    kept = iter([[Stored(one, "stored") for one in results[:10]], [Stored(results[10], "head")]])
    monkeypatch.setattr(gate_stored, "read_stored", lambda path: next(kept))
    Counting.walks = 0

    found = gate_history(HistoryRequest((tmp_path / "stored.json",), tmp_path / "head.json"))

    assert [one.verdict for one in found.suite.points] == [Verdict.PASS] * num_points
    assert Counting.walks <= 6 * len(results)


def test_a_whole_number_beyond_64_bits_is_a_time_like_any_other():
    """GIVEN a new time of 2^70 ns, as JSON has it, WHEN judged, THEN it is slower than all before."""
    new = json.loads("1180591620717411303424")
    before = [1000.0 + at for at in range(10)]

    assert judge_history("p", "period_p50_ns", before, new, Limits()).reason is Reason.SLOWER_THAN_HISTORY
    assert judge_history("p", "period_p50_ns", [*before, new], 1000.0, Limits()).verdict is Verdict.INCONCLUSIVE
    parts = [(time / 10, time) for time in before]
    assert judge_history_share("p", "exposed_p50_ns", parts, (new, new), Limits()).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("new", "reason"), [(1.0, Reason.OTHER_SCALE), (1e-300, Reason.OTHER_SCALE), (20.0, Reason.FASTER)]
)
def test_a_time_in_another_unit_is_no_improvement(new, reason):
    """GIVEN 1,000 ns before and 1 now, WHEN judged, THEN it is not compared; twenty times faster may be true."""
    before = [1000.0 + at for at in range(10)]

    found = judge_history("p", "period_p50_ns", before, new, Limits())

    assert found.reason is reason
    assert (found.verdict is Verdict.PASS) == (reason is Reason.FASTER)
