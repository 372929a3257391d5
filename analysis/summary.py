"""A recording in one row: the figures that a sweep compares, each with its unit in its name, null with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..instrumentation.garbage import collector_held_back
from .columns import Columns, LongArray
from .costs import calibrated
from .exposure import exposure
from .gaps import gaps
from .overlap import PARTNERS, copy_overlap
from .pace import IN_FLIGHT, PACE, PERIOD, most_in_flight, recorded_pace_ns
from .padding import padding
from .phases import DEVICE_FIGURES, HOST_PHASES, phase_summary
from .pinned import pinned_reuse
from .queue_delays import queue_delays
from .replay import Replays, replays
from .speculation import speculation
from .stats import Number, median, median_of_floats, quantile, total
from .table_copies import table_buffer
from .tables import TableSource, floats, ints, matches, processes
from .window import MASKS

MODES = ("none", "piecewise", "full")
DISPATCH_REASONS = ("hit", "above_max", "mixed", "not_captured", "lora", "disabled", "prompt_embeds")
STEP_MEDIANS = ("num_tokens", "num_reqs", "num_h2d", "num_launches", "num_syncs")
OWN_OVERHEAD = "own_overhead_ns"
"""Row of `calibration`: what the probe's ranges and phases cost a step. It is subtracted nowhere."""
NO_OVERHEAD = "the probe did not fall silent by turns, as it does in a run of 64 or more asked-for steps on its own"
OWN_COPY = "own_copy_ns"
"""Rows of the table `calibration` with this name say what a copy takes once it runs; key: buffer/bytes."""
STEP_SUMS = ("num_moved_rows", "num_finished", "num_preempted", "num_resumed")


@dataclass(frozen=True, slots=True)
class Summary:
    """`metrics` maps every name to its value or None; `reasons` says why for each None. No NaN, no guess, no clamp.

    Times are of the counted steps (no warm-up, no incomplete ones). `_p50` medians of integers are exact.
    """

    metrics: Mapping[str, Number | None]
    reasons: Mapping[str, str]


@dataclass(slots=True)
class _Row:
    metrics: dict[str, Number | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def put(self, name: str, value: Number | None, reason: str | None) -> None:
        """A figure; `reason` counts only where the figure is null."""
        self.metrics[name] = value
        if value is None:
            self.reasons[name] = reason or "not recorded"


@collector_held_back()
def summarise(recording: TableSource) -> Summary:
    """The metric row of a recording. The copies that are looked at closely are those that bring the block tables."""
    row = _Row()
    replayed = replays(recording)
    buffer = table_buffer(replayed)
    for section in (_steps, _phases, _bound):
        section(row, replayed)
    for section_of in (_copies, _exposure, _overlap):
        section_of(row, replayed, buffer)
    for section in (_buffers, _padding, _speculation):
        section(row, replayed)
    return Summary(row.metrics, row.reasons)


def _counted(recording: TableSource, name: str) -> list[Columns]:
    """Rows of a table that belong to counted steps, process by process."""
    return [process.counted(name) for process in processes(recording)]


def _values(recording: TableSource, table: str, column: str) -> LongArray:
    parts = [rows.ints(column) for rows in _counted(recording, table)]
    known = [values[valid] for values, valid in parts]
    return np.concatenate(known) if known else np.zeros(0, dtype=np.int64)


def _why(recording: Replays, table: str, column: str, otherwise: str) -> str:
    """The recording's own word on why a column is null, if it has one."""
    return recording.reason(table, column) or otherwise


def _steps(row: _Row, recording: Replays) -> None:
    period = _values(recording, "steps", "period_ns")
    why = _why(recording, "steps", "period_ns", "no counted step has a period")
    for name, value in (
        (PERIOD, median(period)), (PACE, recorded_pace_ns(recording)), ("period_p10_ns", quantile(period, 10)),
        ("period_p90_ns", quantile(period, 90)), ("period_p99_ns", quantile(period, 99)),
    ):
        row.put(name, value, why)
    row.put(IN_FLIGHT, most_in_flight([recording]) if len(period) else None, why)
    for column in ("latency_ns", "host_busy_ns", "host_wait_ns"):
        otherwise = f"no counted step has {column}"
        found = median(_values(recording, "steps", column))
        row.put(column.replace("_ns", "_p50_ns"), found, _why(recording, "steps", column, otherwise))
    for column in STEP_MEDIANS:
        why = _why(recording, "steps", column, f"no counted step has {column}")
        row.put(column, median(_values(recording, "steps", column)), why)
    for column in STEP_SUMS:
        found_values = _values(recording, "steps", column)
        why = _why(recording, "steps", column, f"no counted step has {column}")
        row.put(column, total(found_values) if len(found_values) else None, why)
    overlaps = [rows.floats("batch_overlap") for rows in _counted(recording, "steps")]
    known = np.concatenate([values[valid] for values, valid in overlaps]) if overlaps else np.zeros(0)
    row.put("mean_batch_overlap", float(known.mean()) if len(known) else None,
            _why(recording, "steps", "batch_overlap", "no counted step has batch_overlap"))


def _phases(row: _Row, recording: Replays) -> None:
    found = phase_summary(recording)
    row.put("own_overhead_ns", _own_overhead(recording), NO_OVERHEAD)
    row.put("steps_counted", found.steps_counted, None)
    row.put("steps_warmup", found.steps_warmup, None)
    row.put("steps_incomplete", found.steps_incomplete, None)
    unchecked = "no counted step has a period and all four phases"
    row.put("phases_close_share", found.closing_share, unchecked)
    row.put("phases_worst_gap_share", found.closing_worst, unchecked)
    host = {name: found.host.iloc[at] for at, name in enumerate(HOST_PHASES)}
    for name, line in host.items():
        why = _why(recording, "phases", "host_ns", f"no counted step has the phase {name}")
        row.put(f"{name}_p50_ns", _number(line["p50_ns"]), why)
        row.put(f"{name}_share", _number(line["share"]), why)
    for at in range(len(found.device)):
        line = found.device.iloc[at]
        figure = str(line["figure"])
        why = _why(recording, "phases", figure, f"no counted step has {figure}")
        row.put(f"{line['name']}_{figure.removesuffix('_ns')}_p50_ns", _number(line["p50_ns"]), why)
    assert len(found.device) == (len(HOST_PHASES) - 1) * len(DEVICE_FIGURES)


def _own_overhead(recording: TableSource) -> int | None:
    """What ranges and phases cost a step of the first process that measured it."""
    found = (calibrated(process.rows("calibration"), OWN_OVERHEAD, "step") for process in processes(recording))
    return next((value for value in found if value is not None), None)


def _number(value: object) -> Number | None:
    """A scalar of a nullable frame; a whole float is given as the integer that it is."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        return None
    return int(value) if float(value).is_integer() else float(value)


def _bound(row: _Row, recording: Replays) -> None:
    found = gaps(recording)
    row.put("idle_before_forward_p50_ns", found.idle_p50_ns, found.reason)
    for bound in ("host", "device", "copy", "event"):
        row.put(f"{bound}_bound_share", found.shares.get(bound, 0.0) if found.shares else None, found.reason)


def _copies(row: _Row, recording: Replays, buffer: str) -> None:
    duration, size = _by_step(recording, buffer)
    none = f"no copy of {buffer} in a counted step"
    why = _why(recording, "copies", "start_ns", none)
    row.put("table_copy_p50_ns", median(duration), why)
    row.put("table_copy_p50_bytes", median(size), none)
    queued = _own_copy(recording, f"{buffer}/{median(size)}")
    row.put("table_copy_queued_ns", queued, "no copy of this size was timed behind other work in the run")
    delays = queue_delays(recording, buffer)
    row.put("queue_delay_p50_ns", delays.median(), delays.reason() or why)
    why = _why(recording, "copies", "size_bytes", "no host-to-device copy in a counted step")
    row.put("copied_h2d_p50_bytes", median(_h2d_bytes(recording)), why)
    row.put("num_waits", sum(len(rows) for rows in _counted(recording, "waits")), None)


def _own_copy(recording: TableSource, key: str) -> int | None:
    """What such a copy took among others behind other work, in the first process that measured it."""
    found = (calibrated(process.rows("calibration"), OWN_COPY, key) for process in processes(recording))
    return next((value for value in found if value is not None), None)


def _by_step(recording: TableSource, buffer: str) -> tuple[LongArray, LongArray]:
    """Copy time and bytes of each counted step that copied `buffer`."""
    times, sizes = [], []
    for rows in _counted(recording, "copies"):
        mine = rows[rows.matches("buffer", buffer) & ~rows.matches("direction", "d2h")]
        start, has_start = mine.ints("start_ns")
        end, has_end = mine.ints("end_ns")
        timed = has_start & has_end
        times.append(_sums(mine[timed], (end - start)[timed]))
        size, has_size = mine.ints("size_bytes")
        sizes.append(_sums(mine[has_size], size[has_size]))
    empty = [np.zeros(0, dtype=np.int64)]
    return np.concatenate(times or empty), np.concatenate(sizes or empty)


def _sums(rows: Columns, values: LongArray) -> LongArray:
    """Sums of `values` by the rows' step."""
    numbers, place = np.unique(rows.ints("step")[0], return_inverse=True)
    sums = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(sums, place, values)
    return sums


def _h2d_bytes(recording: TableSource) -> LongArray:
    parts = []
    for rows in _counted(recording, "copies"):
        size, has_size = rows.ints("size_bytes")
        mine = has_size & rows.matches("direction", "h2d")
        parts.append(_sums(rows[mine], size[mine]))
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _exposure(row: _Row, recording: Replays, buffer: str) -> None:
    found = exposure(recording, buffer)
    counted = found.steps[found.steps["counted"].fillna(False).to_numpy(dtype=np.bool_)]
    reasons = [str(reason) for reason in counted["reason"].dropna()]
    why = max(reasons, key=reasons.count) if reasons else f"no copy of {buffer} in a counted step"
    for name in ("exposed", "hidden", *(f"hidden_by_{mask}" for mask in MASKS)):
        values, valid = ints(counted, f"{name}_ns")
        row.put(f"{name}_p50_ns", median(values[valid]), why)
    row.put("exposed_step_ns", found.exposed_step_ns, found.exposed_step_reason)
    row.put("commit_step_ns", found.commit_step_ns, found.exposed_step_reason or f"{buffer} has no range of its own")
    row.put("replay_misfit_ns", found.misfit_ns, "no device operation can be replayed")


def _overlap(row: _Row, recording: Replays, buffer: str) -> None:
    found = copy_overlap(recording, buffer)
    counted = found[found["counted"].to_numpy(dtype=np.bool_)]
    reasons = [str(reason) for reason in counted["reason"].dropna()]
    why = max(reasons, key=reasons.count) if reasons else f"no copy of {buffer} in a counted step"
    for partner in PARTNERS:
        values, valid = floats(counted, f"{partner}_fraction")
        row.put(f"{partner}_overlap_fraction", median_of_floats(values[valid]), why)


def _buffers(row: _Row, recording: Replays) -> None:
    table = pinned_reuse(recording)
    for name in ("hazards_observed", "hazards_possible", "async_pageable"):
        values, valid = ints(table, name)
        where = "copies" if name == "async_pageable" else "buffers"
        row.put(name, total(values[valid]) if valid.any() else None, f"the table {where} is empty")
    hosts = table[~matches(table, "memory", "device")]
    for name in ("wait", "reserved", "capacity"):
        column = "wait_ns" if name == "wait" else f"{name}_bytes"
        values, valid = ints(hosts, column)
        reason = _why(recording, "buffers", column, f"no buffer has {column}")
        row.put(f"buffer_{column}", total(values[valid]) if valid.any() else None, reason)


def _padding(row: _Row, recording: Replays) -> None:
    found = padding(recording)
    none = "no graph was replayed in a counted step"
    row.put("padding_token_share", found.token_share, none)
    row.put("padding_time_mean_ns", found.time_waste_mean_ns, found.reason)
    row.put("padding_time_ns", found.time_waste_ns, found.reason)
    row.put("padding_envelope_ns", found.envelope_waste_ns, found.reason)
    row.put("replay_saving_ns", found.replay_saving_ns, found.reason)
    decided = len(found.dispatch) > 0
    shares = floats(found.dispatch, "share")[0]
    for column, names in (("mode", MODES), ("reason", DISPATCH_REASONS)):
        for name in names:
            value = float(shares[matches(found.dispatch, column, name)].sum()) if decided else None
            row.put(f"dispatch_{name}_share", value, "no counted step has a dispatch decision")
    replayed = found.replayed_steps / (found.replayed_steps + found.eager_steps) if decided else None
    row.put("graph_hit_share", replayed, "no counted step has a dispatch decision")


def _speculation(row: _Row, recording: Replays) -> None:
    found = speculation(recording)
    row.put("drafted_tokens", found.drafted_tokens if found.steps else None, found.reason)
    row.put("accepted_tokens", found.accepted_tokens if found.steps else None, found.reason)
    row.put("accepted_length_mean", found.accepted_length, found.reason)
    row.put("accepted_token_share", found.accepted_share, found.reason)
