"""Claims about graph replay and padding: E13 and E14."""

from __future__ import annotations

from .claim import Claim, Finding
from .figures import Level, ratio
from .padding_figures import FreeShare, WasteCorrelation

ROWS = "workload.settings.num_reqs"
SPAN, PREPARE = "forward_span_ns", "preprocess_ns"


def _rows(rows: int) -> str:
    return f"{rows} row{'s' if rows > 1 else ''}"


def _graph(rows: int, low: float, high: float | None, expected: str) -> Finding:
    where, words = {ROWS: rows}, _rows(rows)
    return Finding(
        f"forward on the device, none / full, {words}", ratio(where, "none", "full", SPAN), words, low, high, expected,
        "host",
    )  # fmt: skip


def _prepare(rows: int) -> Finding:
    return Finding(
        f"host's preparation, none / full, {_rows(rows)}", ratio({ROWS: rows}, "none", "full", PREPARE),
        f"preparation at {_rows(rows)} is not touched", 0.95, 1.05, "equal within 5 %", "host",
    )  # fmt: skip


E13 = Claim(
    "E13",
    "Replaying a graph makes the forward of one row 1.3 times as fast or faster, and that of 1024 rows by 2 % at most;"
    " preparation costs the same within 5 %.",
    "`graph_mode`: none, full", "1, 64, 1024 rows, one token each",
    (
        _graph(1, 1.3, None, "690 to 420 us"), _graph(1024, 0.98, 1.02, "2 % at most"),
        _prepare(1), _prepare(64), _prepare(1024),
        Finding("forward on the device, none / full, 64 rows", ratio({ROWS: 64}, "none", "full", SPAN), bound="host"),
        Finding("forward on the device, full, 1 row", Level({ROWS: 1}, "full", SPAN), expected="420 us"),
        Finding("forward on the device, full, 64 rows", Level({ROWS: 64}, "full", SPAN)),
        Finding("forward on the device, full, 1024 rows", Level({ROWS: 1024}, "full", SPAN)),
    ), spec="e13_graphs.yaml",
)  # fmt: skip

E14 = Claim(
    "E14",
    "Padded tokens do not tell what padding costs: over all batch sizes up to 512 token waste and time waste correlate"
    " by less than 0.5, and some padding is free.",
    "`capture_sizes`: exact, default", "every number of rows from 512 down to 1, one token each",
    (
        Finding("correlation of token waste and time waste", WasteCorrelation({}, "exact", "default", SPAN),
                "the two do not go together", None, 0.5, "below 0.5"),
        Finding("padded sizes whose padding takes no time", FreeShare({}, "exact", "default", SPAN), "some are free",
                0.01, None, "some are 0 or less"),
    ), spec="e14_padding.yaml",
)  # fmt: skip
