"""Claims about graph replay and padding: E13 and E14."""

from __future__ import annotations

from .claim import Claim, Finding
from .figures import Difference, Ratio
from .padding_figures import FreeShare, WasteCorrelation
from .points import Where

ROWS = "workload.settings.num_reqs"
SPAN, PREPARE = "forward_span_ns", "preprocess_ns"
US = 1_000.0


def _quiet(rows: int) -> Where:
    """Without events around device operations: they make eager launches slower."""
    return {ROWS: rows, "measure.device_events": False}


def _rows(rows: int) -> str:
    return f"{rows} row{'s' if rows > 1 else ''}"


def _prepare(rows: int) -> Finding:
    return Finding(
        f"host's preparation, none / full, {_rows(rows)}", Ratio(_quiet(rows), "none", "full", PREPARE),
        f"preparation at {_rows(rows)} is not touched", 0.95, 1.05, "equal within 5 %", "host",
    )  # fmt: skip


E13 = Claim(
    "E13",
    "Replaying a graph shortens the step of one row by 150 us or more and that of 1024 rows by 2 % at most; preparation"
    " costs the same within 5 %.",
    "`graph_mode`: none, full", "1, 64, 1024 rows, one token each; 8 layers of llama-1b",
    (
        Finding("period, none - full, 1 row", Difference(_quiet(1), "none", "full"), "there is 1 row", 150 * US, None,
                "690 to 420 us", "host", Ratio(_quiet(1), "none", "full")),
        Finding("period, none / full, 1024 rows", Ratio(_quiet(1024), "none", "full"), "there are 1024 rows", 0.98,
                1.02, "2 % at most", "host"),
        _prepare(1), _prepare(64), _prepare(1024),
        Finding("period, none - full, 64 rows", Difference(_quiet(64), "none", "full"), bound="host",
                same=Ratio(_quiet(64), "none", "full")),
    ), spec="e13_graphs.yaml", note="a graph of mode `full` is captured for any batch, so that its attention is the"
    " kernel of mixed batches; an eager step sees that each of its rows has one token, and takes the kernel for single"
    " queries. That is what differs on the device, by the code; its share at 1024 rows was not measured apart.",
)  # fmt: skip

_WARM: Where = {"workload.settings.hold": 2}
"""Two steps of each size: the first replay of a graph takes longer."""
E14 = Claim(
    "E14",
    "Padded tokens do not tell what padding costs: over all batch sizes up to 512 token waste and time waste correlate"
    " by less than 0.5, and some padding is free.",
    "`capture_sizes`: exact, default", "every number of rows from 512 down to 1, one token each; 4 layers of llama-1b",
    (
        Finding("correlation of token waste and time waste", WasteCorrelation(_WARM, "exact", "default", SPAN),
                "the two do not go together", None, 0.5, "below 0.5"),
        Finding("padded sizes that were no slower than in a graph of their own",
                FreeShare(_WARM, "exact", "default", SPAN), "some are free",
                0.01, None, "some are 0 or less"),
    ), spec="e14_padding.yaml",
)  # fmt: skip
