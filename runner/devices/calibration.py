"""The calibration file: what one GPU's calls, copies and kernels cost, as measured. JSON, one file a machine.

All times are integer ns. A *staircase* is a pair of equally long columns, sizes ascending; the cost of n is the cost of
the next calibrated size >= n, because kernels are chosen by tile: between two stairs nothing is interpolated.
Copies have no stairs: they are interpolated linearly in bytes between measured points.
"""

from __future__ import annotations

from bisect import bisect_left
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import msgspec

from ...errors import UsageError
from .. import data

Ns = Annotated[int, msgspec.Meta(ge=0)]
Rate = Annotated[float, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Columns = tuple[str, tuple[int, ...], tuple[int, ...]]
"""(field, keys, values)."""


class Staircase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cost by number of rows: `ns[i]` holds for everything above rows[i - 1] up to rows[i]."""

    rows: tuple[Ns, ...]
    ns: tuple[Ns, ...]


class HostCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Host time of one device call, in ns, from entering the call to its return (the queue was not full).

    launch              one small kernel through PyTorch; `launch_by_kind` overrides it for kinds of Work
    graph_launch        replay of the whole stack; graph_launch_piece of one layer's piece
    event_synchronize   of an event that was already done
    pinned_alloc        a page-locked tensor out of the allocator's warm cache
    """

    launch: Ns
    launch_by_kind: dict[str, Ns]
    graph_launch: Ns
    graph_launch_piece: Ns
    copy_h2d_pinned: Ns
    copy_d2h_pinned: Ns
    event_record: Ns
    stream_wait_event: Ns
    event_synchronize: Ns
    pinned_alloc: Ns


class Latencies(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From the end of the host's call to the start on an idle queue, in ns."""

    kernel: Ns
    copy: Ns
    graph: Ns


class EventBias(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """By how much an event pair around a copy reads long, in ns, by the state of the queue at enqueue."""

    idle: Ns
    queued: Ns


class CopyPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """[bytes, device_ns, host_blocked_ns]: time on the device, and time until the call returned."""

    bytes: Ns
    device_ns: Ns
    host_blocked_ns: Ns


class CopyCurves(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Measured points, ascending in bytes. Device-to-host into pageable memory takes the pinned curve and blocks."""

    h2d_pinned: tuple[CopyPoint, ...]
    d2h_pinned: tuple[CopyPoint, ...]
    h2d_pageable: tuple[CopyPoint, ...]


class AttentionCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What attention adds to G(size), all layers together: floor + rate x amount; 0 when the amount is 0.

    The amount is KV positions read by decode queries, or (query, key) pairs of rows with several queries.
    """

    decode_ns_per_kv_token: Rate
    decode_floor_ns: Ns
    prefill_ns_per_pair: Rate
    prefill_floor_ns: Ns


class EagerTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The eager stack by token count: span between events around it (for the report), host time of its launches."""

    sizes: tuple[Ns, ...]
    span_ns: tuple[Ns, ...]
    host_ns: tuple[Ns, ...]


class ModelCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One decoder stack: its shape, G(size) of `sizes` tokens, and what stands around it.

    sizes        token counts at which the stack was measured, ascending
    graph_ns     G(size): device time of one replay of the stack without attention
    kernel_hash  hash of the kernels' names at each size: where it changes, other kernels were chosen
    operations   device time by kind of Work and rows: lm_head, sample, gather_hidden, slot_mapping, ...
    kernels_per_layer  None where the driver did not name the graph's kernels
    sized_attention    what one row's attention adds to a graph captured for so many rows (the more, the fewer programs
                       share out its keys); None where it was not measured
    """

    layers: Count
    hidden: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
    vocab: Count
    kernels_per_layer: Count | None
    sizes: tuple[Ns, ...]
    graph_ns: tuple[Ns, ...]
    eager: EagerTimes
    attention: AttentionCosts
    operations: dict[str, Staircase]
    kernel_hash: tuple[str, ...] | None = None
    sized_attention: Staircase | None = None


class Calibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One machine's costs. `source` is the command that measured them, `date` is ISO 8601.

    sync_wakeup_ns              from the end of the operation to the return of the host wait
    pageable_waits_above_bytes  a larger pageable copy returns only after its stream's earlier work; None: not measured,
                                or none did; the host then pays only the blocked time of the curve
    matmul_flops_per_s, device_copy_bytes_per_s  what the GPU reaches at best: bf16 products, copies (read plus written)
    """

    gpu: str
    driver: str
    torch: str
    date: str
    source: str
    host_cost_ns: HostCosts
    launch_latency_ns: Latencies
    sync_wakeup_ns: Ns
    event_bias_ns: EventBias
    copy_curves: CopyCurves
    peak_copy_bytes_per_s: Rate
    models: dict[str, ModelCosts]
    pageable_waits_above_bytes: Ns | None = None
    matmul_flops_per_s: Rate | None = None
    device_copy_bytes_per_s: Rate | None = None


def bundled_calibrations() -> tuple[str, ...]:
    """Names of the calibrations that the package carries."""
    folder = resources.files(data)
    return tuple(sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".json")))


def load_calibration(name_or_path: str) -> Calibration:
    """A bundled calibration by name (`h200`), or any file by its path. Raises UsageError naming file and field."""
    if name_or_path in bundled_calibrations():
        text = resources.files(data).joinpath(f"{name_or_path}.json").read_bytes()
        return parse_calibration(text, where=f"{name_or_path}.json")
    path = Path(name_or_path)
    if path.suffix != ".json" and len(path.parts) == 1:
        known = ", ".join(bundled_calibrations()) or "none"
        raise UsageError(f"calibration {name_or_path!r} is not bundled (bundled: {known}); give a .json file instead")
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"calibration {name_or_path}: cannot be read ({error.strerror}); check the path") from None
    return parse_calibration(text, where=name_or_path)


def calibration_of(gpu: str) -> Calibration | None:
    """The bundled calibration measured on a GPU of this name, None if there is none."""
    for name in bundled_calibrations():
        calibration = load_calibration(name)
        if calibration.gpu == gpu:
            return calibration
    return None


def parse_calibration(text: bytes | str, *, where: str) -> Calibration:
    """Decode and check one file. Raises UsageError with `where`, the field and the mend."""
    try:
        calibration = msgspec.json.decode(text, type=Calibration)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"calibration {where}: {error}; see runner/devices/calibration.py for the format") from None
    for field, keys, values in _columns(calibration):
        _check_columns(where, field, keys, values)
    return calibration


def _columns(calibration: Calibration) -> list[Columns]:
    """(field, keys, values) of every pair of columns in the file."""
    curves = calibration.copy_curves
    columns: list[Columns] = []
    for name, points in (
        ("h2d_pinned", curves.h2d_pinned), ("d2h_pinned", curves.d2h_pinned), ("h2d_pageable", curves.h2d_pageable),
    ):
        sizes = tuple(point.bytes for point in points)
        columns.append((f"copy_curves.{name}", sizes, tuple(point.device_ns for point in points)))
        columns.append((f"copy_curves.{name}", sizes, tuple(point.host_blocked_ns for point in points)))
    for name, model in calibration.models.items():
        columns.append((f"models.{name}.graph_ns", model.sizes, model.graph_ns))
        columns.append((f"models.{name}.eager.span_ns", model.eager.sizes, model.eager.span_ns))
        columns.append((f"models.{name}.eager.host_ns", model.eager.sizes, model.eager.host_ns))
        if model.kernel_hash is not None:
            columns.append((f"models.{name}.kernel_hash", model.sizes, tuple(range(len(model.kernel_hash)))))
        for kind, stairs in model.operations.items():
            columns.append((f"models.{name}.operations.{kind}", stairs.rows, stairs.ns))
    return columns


def _check_columns(where: str, field: str, keys: tuple[int, ...], values: tuple[int, ...]) -> None:
    if not keys or len(keys) != len(values):
        raise UsageError(
            f"calibration {where}: {field} has {len(values)} values for {len(keys)} sizes; "
            "give one for each and at least one"
        )
    if any(later <= earlier for earlier, later in pairwise(keys)):
        raise UsageError(f"calibration {where}: the sizes of {field} must ascend; sort them and drop doubles")


def stair(keys: tuple[int, ...], values: tuple[int, ...], n: int) -> int | None:
    """The value of the next key >= n, None above the largest key."""
    index = bisect_left(keys, n)
    return values[index] if index < len(keys) else None
