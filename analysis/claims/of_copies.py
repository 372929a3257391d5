"""Claims about the step's copies: E1 to E5 and E17. Widths are of tables of 4-byte block ids."""

from __future__ import annotations

from dataclasses import replace

from .claim import Claim, Finding
from .figures import Difference, Less, Level, Ratio, Removed, Share
from .points import Where

WIDTH, EVENTS = "runner.table_width", "measure.device_events"
US = 1_000.0
CALL, COPY, PREPARE, WAIT = "table_call_ns", "table_copy_ns", "preprocess_ns", "host_wait_ns"
QUIET = {EVENTS: False}
"""Without events around device operations: they are the host's work as well, and an arm without a copy has fewer."""
MIB_8, MIB_HALF = {WIDTH: 8192, **QUIET}, {WIDTH: 512, **QUIET}
"""256 rows."""
AHEAD_8, AHEAD_HALF, AHEAD_128K = {WIDTH: 65536}, {WIDTH: 4096}, {WIDTH: 1024}
"""32 rows: with more of them the host is the slower one."""


def _device_bound(where: Where, arm: str, words: str) -> Finding:
    """The host waits for the device in every step: what it does not wait is less than the period."""
    return Finding(
        f"share of the period in which the host works, arm {arm}, {words}",
        Removed(Level(where, arm, WAIT, "turn"), Level(where, arm, by="turn")),
        where="the device is the slower one", high=0.95, bound="host",
    )  # fmt: skip


def _order(where: Where, size: str, low: float | None, high: float | None, expected: str) -> Finding:
    return Finding(
        f"period, last - first, {size}", Difference(where, "last", "first"), f"the table has {size}", low, high,
        expected, "host", Ratio(where, "last", "first"),
    )  # fmt: skip


def _shown(where: Where, size: str) -> tuple[Finding, ...]:
    return tuple(
        Finding(f"period, {left} - {right}, {size}", Difference(where, left, right), bound="host",
                same=Ratio(where, left, right))
        for left, right in (("first", "skip"), ("last", "skip"))
    )  # fmt: skip


E1 = Claim(
    "E1",
    "With synchronous scheduling, committing a block table of 8 MiB before index building shortens the step by 60 us or"
    " more; at 0.5 MiB the order is worth less than 12 us.",
    "`commit_order`: first, last, skip (one runner)", "256 rows, one token each, widths 8192 and 512",
    (
        _order(MIB_8, "8 MiB", 60 * US, None, "+60 to +100 us"),
        _order(MIB_HALF, "0.5 MiB", None, 12 * US, "below 12 us"),
        *_shown(MIB_8, "8 MiB"), *_shown(MIB_HALF, "0.5 MiB"),
    ), spec="e01_commit_order.yaml", one_runner=True,
)  # fmt: skip

def _ahead(where: Where, left: str, right: str) -> Difference:
    """With two steps in flight the sum of a turn is the device's time, a single period is not."""
    return Difference(where, left, right, by="turn")


_QUIET_8, _TIMED_8 = AHEAD_8 | {EVENTS: False}, AHEAD_8 | {EVENTS: True}
"""Events lengthen what is queued behind them: the copy is timed in a cell of its own."""
E2 = Claim(
    "E2",
    "With two steps in flight and the copy on the compute stream the order is worth nothing at any size, and the whole"
    " copy is exposed.",
    "`commit_order`: first, last, skip (one runner)",
    "32 rows, widths 65536 and 4096, forward longer than the host's work",
    (
        Finding("period, last - first, 8 MiB", _ahead(_QUIET_8, "last", "first"), "the table has 8 MiB",
                -5 * US, 5 * US, "0 within 5 us"),
        Finding("period, last - first, 0.5 MiB", _ahead(AHEAD_HALF, "last", "first"), "the table has 0.5 MiB",
                -5 * US, 5 * US, "0 within 5 us"),
        Finding("(first - skip) / copy, 8 MiB",
                Share(_ahead(_QUIET_8, "first", "skip"), Level(_TIMED_8, "first", COPY)),
                "the whole copy shows at 8 MiB", 0.9, 1.1, "1 within 10 %"),
        Finding("period, first - skip, 8 MiB", _ahead(_QUIET_8, "first", "skip"), expected="the copy"),
        Finding("period, first - skip, 0.5 MiB", _ahead(AHEAD_HALF, "first", "skip"), expected="the copy"),
        Finding("copy, 8 MiB", Level(_TIMED_8, "first", COPY), expected="155 us"),
    ),
    (_device_bound(_QUIET_8, "skip", "8 MiB"), _device_bound(AHEAD_HALF, "skip", "0.5 MiB")), "e02_order_ahead.yaml",
    one_runner=True,
)  # fmt: skip

_COMPUTE: Where = {"runner.copy_stream": "compute", "runner.device_buffers": "single_guarded"}
_GUARDED: Where = {"runner.copy_stream": "dedicated", "runner.device_buffers": "single_guarded"}
_DOUBLE: Where = {"runner.copy_stream": "dedicated", "runner.device_buffers": "double"}


def _exposed(where: Where) -> Difference:
    return _ahead(where, "first", "skip")


E3 = Claim(
    "E3",
    "A copy stream of its own gains at most 2 % of the period while it has to guard one device table; with two device"
    " tables it hides 90 % or more of the copy.",
    "`copy_stream` x `device_buffers`: compute, guarded, double; in each `commit_order` first and skip (one runner)",
    "32 rows, 8 MiB, two steps in flight, forward longer than the host's work",
    (
        Finding("gain of the guarded stream / period",
                Share(Less(_exposed(_COMPUTE), _exposed(_GUARDED)), Level(_COMPUTE, "first", by="turn")),
                "one guarded table gains nothing", -0.02, 0.02, "at most 2 % (671 to 666 us)"),
        Finding("copy that two tables hide", Removed(_exposed(_DOUBLE), _exposed(_COMPUTE)), "two tables hide it",
                0.9, None, "90 % or more (671 to 522 us)"),
        Finding("exposed, compute stream", _exposed(_COMPUTE), expected="the copy, 157 us"),
        Finding("exposed, own stream, one guarded table", _exposed(_GUARDED)),
        Finding("exposed, own stream, two tables", _exposed(_DOUBLE), expected="8 us"),
    ),
    (_device_bound(_COMPUTE, "skip", "compute stream"), _device_bound(_DOUBLE, "skip", "two tables")),
    "e03_copy_stream.yaml", one_runner=True,
)  # fmt: skip

NONE_NEW, ALL_NEW = {"runner.block_size": 16}, {"runner.block_size": 1}


def _staged(where: Where, arm: str, size: str, rows: str, low: float | None, high: float | None) -> Finding:
    return Finding(
        f"period, {arm} - full, {size}, {rows}", _ahead(where, arm, "full"), f"{size}, {rows}", low, high,
        "-140 to -155 us" if "MiB" in size else "+5 to +25 us",
    )  # fmt: skip


E4 = Claim(
    "E4",
    "Sending only the new block ids instead of the whole table saves 140 us or more a step at 8 MiB, whether no row or"
    " every row has a new block, and costs 5 to 25 us at 128 KiB.",
    "`block_table_commit`: full, dirty_rows, staged", "32 rows, widths 65536 and 1024, two steps in flight; no row or"
    " every row gets a block in a step",
    (
        _staged(AHEAD_8 | NONE_NEW, "staged", "8 MiB", "no row new", None, -140 * US),
        _staged(AHEAD_8 | ALL_NEW, "staged", "8 MiB", "all rows new", None, -140 * US),
        _staged(AHEAD_128K | NONE_NEW, "staged", "128 KiB", "no row new", 5 * US, 25 * US),
        Finding("period, dirty_rows - full, 8 MiB, no row new", _ahead(AHEAD_8 | NONE_NEW, "dirty_rows", "full")),
        Finding("period, dirty_rows - full, 8 MiB, all rows new", _ahead(AHEAD_8 | ALL_NEW, "dirty_rows", "full")),
    ),
    (_device_bound(AHEAD_8 | NONE_NEW, "staged", "8 MiB"), _device_bound(AHEAD_128K, "full", "128 KiB")),
    "e04_table_commit.yaml",
)  # fmt: skip


def _call(width: int, size: str, low: float | None, high: float | None, expected: str) -> Finding:
    where = {WIDTH: width, **QUIET}
    return Finding(
        f"host's call for the copy, pageable - pinned_ring, {size}", Difference(where, "pageable", "pinned_ring", CALL),
        f"the table has {size}", low, high, expected, "host", Ratio(where, "pageable", "pinned_ring", CALL),
    )  # fmt: skip


_MIDDLE = {WIDTH: 262144, **QUIET}
E5 = Claim(
    "E5",
    "A pageable source makes the host wait for its copy: 400 us or more at 8 MiB; at 16 KiB it costs no more than a"
    " pinned one, within 5 us.",
    "`staging`: pinned_ring, pageable", "8 rows, tables of 16 KiB, 8 MiB and 32 MiB",
    (
        _call(512, "16 KiB", -5 * US, 5 * US, "equal"),
        _call(262144, "8 MiB", 400 * US, None, "4 against 540 us"),
        _call(1048576, "32 MiB", 1600 * US, None, "in proportion"),
        Finding("host's call, pinned_ring, 8 MiB", Level(_MIDDLE, "pinned_ring", CALL), bound="host",
                expected="4 us", same=Ratio(_MIDDLE, "pageable", "pinned_ring", CALL)),
    ), spec="e05_staging.yaml",
)  # fmt: skip

_ROWS, _HANDOFF = "workload.settings.num_reqs", "runner.token_handoff"


def _packing(rows: int) -> tuple[Finding, ...]:
    where, words = {_ROWS: rows, _HANDOFF: "sync", EVENTS: False}, f"{rows} row{'s' if rows > 1 else ''}"
    return (
        Finding(f"host's preparation, packed - separate, {words}", Difference(where, "packed", "separate", PREPARE),
                words, None, -5 * US, "-6.6 us a copy", "host", Ratio(where, "packed", "separate", PREPARE)),
        Finding(f"period, packed - separate, {words}", Difference(where, "packed", "separate"), bound="host",
                same=Ratio(where, "packed", "separate")),
    )  # fmt: skip


_PACKED_AHEAD = {_ROWS: 32, _HANDOFF: "async_auto", EVENTS: False}
E17 = Claim(
    "E17",
    "Packing the small inputs into one copy saves 5 us or more of the host's preparation at any number of rows, and"
    " 5 us or more of the device's time.",
    "`h2d_packing`: separate, packed", "1, 64, 256 rows, sync; 32 rows, two steps in flight, forward longer than the"
    " host's work",
    (
        *_packing(1), *_packing(64), *_packing(256),
        Finding("device-bound period, packed - separate, 32 rows", _ahead(_PACKED_AHEAD, "packed", "separate"),
                "the device is the slower one", None, -5 * US, "36 to 5 us for 8 copies"),
        replace(_device_bound(_PACKED_AHEAD, "packed", "32 rows"), high=None),
    ), spec="e17_packing.yaml",
)  # fmt: skip
