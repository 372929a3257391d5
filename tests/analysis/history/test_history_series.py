"""Series are of one machine, in order, and what names no machine is of none."""

from __future__ import annotations

from stepscope.analysis.history.series import gather, in_order, machine_of

from .made import H200, stored


def everything(names):
    return list(names)


def test_machines_are_never_mixed_and_unknown_is_none():
    driver = {**H200, "driver": "581.0"}
    results = [
        stored(1.0, 0), stored(2.0, 1, machine=driver), stored(3.0, 2), stored(4.0, 3, machine={"driver": "580.1"}),
        stored(5.0, 4, machine={**H200, "gpu": "unknown"}), stored(6.0, 5, machine={"gpu": "NVIDIA H200"}),
    ]  # fmt: skip
    found = gather(results, everything)
    assert [one.values for one in found.series] == [(1.0, 3.0), (2.0,), (6.0,)]
    assert [one.label for one in found.unknown] == ["r3", "r4"]
    assert len(found.machines) == 3
    assert machine_of({**H200, "sm_clock_mhz": 1409}) == machine_of({**H200, "sm_clock_mhz": 1980})


def test_a_point_that_a_result_lacks_is_a_hole():
    found = gather([stored(1.0, 0), stored(2.0, 1, point="other"), stored(3.0, 2)], everything)
    assert {one.point: one.values for one in found.series} == {"decode": (1.0, None, 3.0), "other": (None, 2.0, None)}


def test_order_is_time_only_where_every_result_has_one():
    late, early = stored(1.0, 0, time="2026-02-01"), stored(2.0, 1, time="2026-01-01")
    assert in_order([late, early]) == (early, late)
    unknown = stored(3.0, 2)
    assert in_order([late, early, unknown]) == (late, early, unknown)
