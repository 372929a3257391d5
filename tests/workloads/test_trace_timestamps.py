from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal

import pytest
from stepscope.workloads.traces.timestamps import BadTimestamp, scaled_ns, wall_time_ns

NOV_16 = 1_700_158_623


def test_the_base_agrees_with_the_standard_library() -> None:
    assert datetime(2023, 11, 16, 18, 17, 3, tzinfo=timezone.utc).timestamp() == NOV_16


@pytest.mark.parametrize(
    ("text", "second", "ns"),
    [
        ("2023-11-16 18:17:03.9799600", NOV_16, 979_960_000),  # seven digits: 100 ns
        ("2023-11-16 18:17:03.9799601", NOV_16, 979_960_100),
        ("2023-11-16 18:17:03.000000001", NOV_16, 1),
        ("2023-11-16 18:17:03", NOV_16, 0),
        ("2023-11-16 18:17:03.009930+00:00", NOV_16, 9_930_000),
        ("2023-11-16 18:17:03+00:00", NOV_16, 0),
        ("2023-11-16T18:17:03Z", NOV_16, 0),
        (" 2023-11-16 20:17:03+0200", NOV_16, 0),
        ("2023-11-16 13:47:03-04:30", NOV_16, 0),
        ("1970-01-01 00:00:00.1", 0, 100_000_000),
        ("2024-02-29 00:00:00", 1_709_164_800, 0),
        ("2023-11-16 19:17:03.5+01", NOV_16, 500_000_000),
    ],
)
def test_wall_time_is_exact(text: str, second: int, ns: int) -> None:
    assert wall_time_ns(text) == second * 1_000_000_000 + ns


@pytest.mark.parametrize(
    "text",
    [
        "", "5", "2023-02-30 00:00:00", "2023-11-16", "2023-11-16 18:17:03.1234567890", "x",
        "0001-01-01 00:00:00", "1800-01-01 00:00:00", "9999-12-31 23:59:59",  # nothing that int64 holds
    ],
)  # fmt: skip
def test_what_is_no_wall_time_is_refused(text: str) -> None:
    with pytest.raises(BadTimestamp):
        wall_time_ns(text)


@pytest.mark.parametrize(
    ("value", "unit", "ns"),
    [
        ("5", 1_000_000_000, 5_000_000_000),
        ("0.098189", 1_000_000_000, 98_189_000),
        (Decimal("61.114"), 1_000_000_000, 61_114_000_000),
        (1022025, 1_000_000, 1_022_025_000_000),
        ("10500000.000000001", 1_000_000_000, 10_500_000_000_000_001),  # a float would lose the last digit
    ],
)
def test_scaled_times_are_exact(value: object, unit: int, ns: int) -> None:
    assert scaled_ns(value, unit) == ns


@pytest.mark.parametrize("value", ["", "abc", "nan", "inf", True, None, [1], 0.5])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(BadTimestamp):
        scaled_ns(value, 1)
