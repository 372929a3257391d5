"""From raw figures to the calibration file. Everything that is derived is derived here, and nowhere else.

 - G(size) is the median of the rounds' medians: a clock that rose after a pause spoils one round, not the figure
 - host times and eager spans are the least of the rounds' medians: a busy host only ever adds
 - the host time of an eager stack is the median over all sizes: launching costs the same whatever the kernels' size
 - attention's cost is a line (relative least squares) over KV positions read, or (query, key) pairs
 - the queue-state constants are medians over sizes
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...runner.devices.calibration import (
    AttentionCosts,
    Calibration,
    CopyCurves,
    CopyPoint,
    EagerTimes,
    EventBias,
    HostCosts,
    Latencies,
    ModelCosts,
    Staircase,
)
from .raw import Copies, CopySample, PageableSample, RawFigures


@dataclass(frozen=True, slots=True)
class Line:
    """cost = rate x amount + floor, and how far the points lie from it, relative to themselves."""

    rate: float
    floor: float
    median_error: float
    worst_error: float

    def __str__(self) -> str:
        return f"median |error| {self.median_error:.1%}, worst {self.worst_error:.1%}"


def fit(amounts: Sequence[float], times_ns: Sequence[float]) -> Line:
    """The line of least relative squares; its floor is never below 0."""
    x, y = np.array(amounts, float), np.array(times_ns, float)
    design = np.stack([x, np.ones_like(x)], axis=1) / y[:, None]
    rate, floor = np.linalg.lstsq(design, np.ones_like(y), rcond=None)[0]
    if floor < 0:
        rate, floor = float((x / y).sum() / ((x / y) ** 2).sum()), 0.0
    errors = np.abs((rate * x + floor) / y - 1)
    return Line(float(rate), float(floor), float(np.median(errors)), float(errors.max()))


def decode_line(raw: RawFigures) -> Line:
    """All layers' decode attention over KV positions read."""
    decode = raw.attention.decode
    return fit([sample.rows * sample.kv_tokens for sample in decode], [sample.ns for sample in decode])


def prefill_line(raw: RawFigures) -> Line:
    """All layers' prefill attention over (query, key) pairs; q queries have q (q + 1) / 2 causal ones."""
    prefill = raw.attention.prefill
    return fit([sample.queries * (sample.queries + 1) / 2 for sample in prefill], [sample.ns for sample in prefill])


def pageable_waits_above(samples: Sequence[PageableSample]) -> int | None:
    """The largest size whose call returned while the stream was still busy, if every larger one waited for it.

    None when no size waited, or when waiting does not begin at one size: then there is no such limit to tell.
    """
    waited = [sample.behind_work_ns - sample.idle_ns > sample.busy_ns / 2 for sample in samples]
    if True not in waited:
        return None
    first = waited.index(True)
    if not all(waited[first:]):
        return None
    return samples[first - 1].size_bytes if first else 0


def derive(raw: RawFigures, source: str) -> Calibration:
    """The calibration file's content. `source` names the command and the file of raw figures."""
    origin, host, latency = raw.origin, raw.host_cost_ns, raw.latency_ns
    pinned = raw.copies.h2d_pinned
    return Calibration(
        gpu=origin.gpu, driver=origin.driver, torch=origin.torch, date=origin.date, source=source,
        host_cost_ns=HostCosts(
            launch=round(host.launch), launch_by_kind={"slot_mapping": round(host.slot_mapping_launch)},
            graph_launch=round(host.graph_launch), graph_launch_piece=round(host.graph_launch_layer),
            copy_h2d_pinned=_host(pinned), copy_d2h_pinned=_host(raw.copies.d2h_pinned),
            event_record=round(host.event_record), stream_wait_event=round(host.stream_wait_event),
            event_synchronize=round(host.event_synchronize_done), pinned_alloc=round(host.pinned_alloc_cached),
        ),
        launch_latency_ns=Latencies(
            kernel=_at_least_0(latency.kernel.latency_ns), copy=_at_least_0(latency.copy.latency_ns),
            graph=_at_least_0(latency.graph.latency_ns),
        ),
        sync_wakeup_ns=_at_least_0(latency.graph.wakeup_ns),
        event_bias_ns=_bias(raw.copies),
        copy_curves=CopyCurves(
            h2d_pinned=_points(pinned), d2h_pinned=_points(raw.copies.d2h_pinned),
            h2d_pageable=_points(raw.copies.h2d_pageable),
        ),
        peak_copy_bytes_per_s=round(max(sample.size_bytes / sample.device_ns for sample in pinned) * 1e9),
        pageable_waits_above_bytes=pageable_waits_above(raw.copies.pageable_behind_work),
        matmul_flops_per_s=round(raw.ceilings.matmul_flops_per_s),
        device_copy_bytes_per_s=round(raw.ceilings.device_copy_bytes_per_s),
        models={raw.shape.name: _model(raw)},
    )  # fmt: skip


def _model(raw: RawFigures) -> ModelCosts:
    shape, decode, prefill = raw.shape, decode_line(raw), prefill_line(raw)
    hashes = [sample.kernel_hash for sample in raw.stack]
    per_layer = None if raw.kernels is None else max(round(raw.kernels / shape.layers), 1)
    host_ns = round(statistics.median(min(sample.host_medians_ns) for sample in raw.eager))
    return ModelCosts(
        layers=shape.layers, hidden=shape.hidden, heads=shape.heads, kv_heads=shape.kv_heads,
        head_dim=shape.head_dim, vocab=shape.vocab, kernels_per_layer=per_layer,
        sizes=tuple(sample.tokens for sample in raw.stack),
        graph_ns=tuple(round(statistics.median(sample.round_medians_ns)) for sample in raw.stack),
        kernel_hash=tuple(known for known in hashes if known) if all(hashes) else None,
        eager=EagerTimes(
            sizes=tuple(sample.tokens for sample in raw.eager),
            span_ns=tuple(round(min(sample.span_medians_ns)) for sample in raw.eager),
            host_ns=(host_ns,) * len(raw.eager),
        ),
        attention=AttentionCosts(
            decode_ns_per_kv_token=round(decode.rate, 4), decode_floor_ns=round(decode.floor),
            prefill_ns_per_pair=round(prefill.rate, 6), prefill_floor_ns=round(prefill.floor),
        ),
        operations={
            kind: Staircase(tuple(sample.rows for sample in points), tuple(round(sample.ns) for sample in points))
            for kind, points in raw.heads.items()
        },
        sized_attention=_sized(raw),
    )  # fmt: skip


def _sized(raw: RawFigures) -> Staircase | None:
    """Attention that adds nothing to a graph reads as a little less than nothing."""
    if not raw.sized:
        return None
    return Staircase(tuple(sample.size for sample in raw.sized), tuple(_at_least_0(sample.ns) for sample in raw.sized))


def _bias(copies: Copies) -> EventBias:
    return EventBias(
        idle=_at_least_0(statistics.median(sample.idle_ns - sample.device_ns for sample in copies.event_bias)),
        queued=_at_least_0(statistics.median(sample.queued_ns - sample.device_ns for sample in copies.event_bias)),
    )


def _at_least_0(value_ns: float) -> int:
    """Two clocks' readings may cross by their error; a cost is never below 0."""
    return max(round(value_ns), 0)


def _host(samples: Sequence[CopySample]) -> int:
    return round(statistics.median(sample.host_ns for sample in samples))


def _points(samples: Sequence[CopySample]) -> tuple[CopyPoint, ...]:
    return tuple(CopyPoint(sample.size_bytes, round(sample.device_ns), round(sample.host_ns)) for sample in samples)
