"""The raw figures of one calibration, as measured: every number of the calibration file is derived from these.

Times are ns as floats (medians of integer or microsecond readings), sizes are bytes, rates are per second.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from ...errors import UsageError


class Origin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where, when and by what the figures were made."""

    gpu: str
    driver: str
    torch: str
    triton: str
    date: str
    command: str
    method: str
    wall_s: float = 0.0


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The measured decoder; `stack` says in words what its times cover."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    dtype: str
    stack: str


class HostCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Host time of device calls as Python pays it: the least of three medians."""

    launch: float
    slot_mapping_launch: float
    graph_launch: float
    graph_launch_layer: float
    copy_h2d_pinned: float
    copy_d2h_pinned: float
    event_record: float
    event_create_record: float
    event_query: float
    event_synchronize_done: float
    stream_wait_event: float
    pinned_alloc_cached: float
    is_pinned: float


class Latency(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of one kind of call on an idle stream: its end to the device's start; the device's end to the wait's return."""

    latency_ns: float
    wakeup_ns: float


class Latencies(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """By kind of call."""

    kernel: Latency
    copy: Latency
    graph: Latency


class CopySample(msgspec.Struct, frozen=True, array_like=True):
    """[bytes, device_ns by CUPTI behind a busy stream, host_ns of the call]."""

    size_bytes: int
    device_ns: float
    host_ns: float


class BiasSample(msgspec.Struct, frozen=True, array_like=True):
    """[bytes, device_ns by CUPTI, an event pair's ns behind a busy stream, on an idle stream]."""

    size_bytes: int
    device_ns: float
    queued_ns: float
    idle_ns: float


class PageableSample(msgspec.Struct, frozen=True, array_like=True):
    """[bytes, host_ns of a pageable copy on an idle stream, on a stream that is busy for busy_ns more, busy_ns]."""

    size_bytes: int
    idle_ns: float
    behind_work_ns: float
    busy_ns: float


class Copies(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything about copies."""

    h2d_pinned: tuple[CopySample, ...]
    d2h_pinned: tuple[CopySample, ...]
    h2d_pageable: tuple[CopySample, ...]
    event_bias: tuple[BiasSample, ...]
    pageable_behind_work: tuple[PageableSample, ...]


class StackSample(msgspec.Struct, frozen=True, array_like=True):
    """[tokens, median ns of a replay in each round, hash of the graph's kernel names]."""

    tokens: int
    round_medians_ns: tuple[float, ...]
    kernel_hash: str | None


class EagerSample(msgspec.Struct, frozen=True, array_like=True):
    """[tokens, median span between events in each round, median host ns in each round]."""

    tokens: int
    span_medians_ns: tuple[float, ...]
    host_medians_ns: tuple[float, ...]


class DecodeSample(msgspec.Struct, frozen=True, array_like=True):
    """[rows, KV positions of each row, ns of all layers]."""

    rows: int
    kv_tokens: int
    ns: float


class PrefillSample(msgspec.Struct, frozen=True, array_like=True):
    """[queries of the one request, ns of all layers]."""

    queries: int
    ns: float


class SizedSample(msgspec.Struct, frozen=True, array_like=True):
    """[rows of the graph, KV positions of its one real row, ns that attention adds to the graph]."""

    size: int
    kv_tokens: int
    ns: float


class Attention(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The runner's attention kernels, all layers, each on a cache of its own."""

    decode: tuple[DecodeSample, ...]
    prefill: tuple[PrefillSample, ...]


class HeadSample(msgspec.Struct, frozen=True, array_like=True):
    """[rows, ns]."""

    rows: int
    ns: float


class Ceilings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the GPU reaches at best: bf16 products of 8192 x 8192, device copies of 1 GiB (bytes read plus written)."""

    matmul_flops_per_s: float
    device_copy_bytes_per_s: float


class RawFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One calibration. `kernels` counts the stack's graph nodes at one token; None where the driver does not say.
    `sized` is missing in older files.
    """

    origin: Origin
    shape: Shape
    host_cost_ns: HostCosts
    latency_ns: Latencies
    copies: Copies
    ceilings: Ceilings
    heads: dict[str, tuple[HeadSample, ...]]
    eager: tuple[EagerSample, ...]
    attention: Attention
    stack: tuple[StackSample, ...]
    kernels: int | None
    sized: tuple[SizedSample, ...] = ()


def read_raw(path: Path) -> RawFigures:
    """The raw figures in `path`. Raises UsageError that names the file and the field."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RawFigures)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}; measure again with perf doctor --calibrate") from None
