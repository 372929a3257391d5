"""A calibration as rows of the Recording's table `calibration`, so that a file made by `sim` carries its own costs."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from .calibration import Calibration, ModelCosts

CalibrationRow = tuple[str, str, float, str, str, str, str, str, str | None]
"""(name, key, value, unit, gpu, driver, date, source, kernel_hash), the order of the schema's CALIBRATION."""


def calibration_rows(calibration: Calibration, cost_model: str | None = None) -> list[CalibrationRow]:
    """Rows of `calibration`, of one cost model or of all.

    `name` is the field of the calibration file, `key` tells its entries apart: `graph_ns` of 256 tokens has the key
    `llama-1b/256`, the pinned copy of 8 KiB is `copy_device_ns` with `h2d_pinned/8192`.
    """
    origin = (calibration.gpu, calibration.driver, calibration.date, calibration.source)
    entries = [*_machine(calibration)]
    for name, model in calibration.models.items():
        if cost_model is None or name == cost_model:
            entries += _model(name, model)
    return [(name, key, float(value), unit, *origin, kernels) for name, key, value, unit, kernels in entries]


Entry = tuple[str, str, float, str, str | None]


def _machine(calibration: Calibration) -> Iterator[Entry]:
    host = msgspec.structs.asdict(calibration.host_cost_ns)
    for kind, cost_ns in host.pop("launch_by_kind").items():
        yield "host_cost_ns", f"launch/{kind}", cost_ns, "ns", None
    for field, costs in (
        ("host_cost_ns", host),
        ("launch_latency_ns", msgspec.structs.asdict(calibration.launch_latency_ns)),
        ("sync_wakeup_ns", {"event": calibration.sync_wakeup_ns}),
        ("event_bias_ns", msgspec.structs.asdict(calibration.event_bias_ns)),
    ):
        for key, cost_ns in costs.items():
            yield field, key, cost_ns, "ns", None
    for curve, points in msgspec.structs.asdict(calibration.copy_curves).items():
        for point in points:
            yield "copy_device_ns", f"{curve}/{point.bytes}", point.device_ns, "ns", None
            yield "copy_host_blocked_ns", f"{curve}/{point.bytes}", point.host_blocked_ns, "ns", None
    yield "peak_copy_bytes_per_s", "h2d", calibration.peak_copy_bytes_per_s, "bytes/s", None
    if calibration.device_copy_bytes_per_s is not None:
        yield "peak_copy_bytes_per_s", "device", calibration.device_copy_bytes_per_s, "bytes/s", None
    if calibration.matmul_flops_per_s is not None:
        yield "peak_matmul_flops_per_s", "bfloat16", calibration.matmul_flops_per_s, "FLOP/s", None


def _model(name: str, model: ModelCosts) -> Iterator[Entry]:
    hashes = model.kernel_hash or (None,) * len(model.sizes)
    for size, graph_ns, kernels in zip(model.sizes, model.graph_ns, hashes, strict=True):
        yield "graph_ns", f"{name}/{size}", graph_ns, "ns", kernels
    for size, span_ns, host_ns in zip(model.eager.sizes, model.eager.span_ns, model.eager.host_ns, strict=True):
        yield "eager_span_ns", f"{name}/{size}", span_ns, "ns", None
        yield "eager_host_ns", f"{name}/{size}", host_ns, "ns", None
    for kind, stairs in model.operations.items():
        for rows, cost_ns in zip(stairs.rows, stairs.ns, strict=True):
            yield f"{kind}_ns", f"{name}/{rows}", cost_ns, "ns", None
    if model.sized_attention is not None:
        for rows, cost_ns in zip(model.sized_attention.rows, model.sized_attention.ns, strict=True):
            yield "sized_attention_ns", f"{name}/{rows}", cost_ns, "ns", None
    for field, value in msgspec.structs.asdict(model.attention).items():
        unit = "ns" if field.endswith("floor_ns") else "ns each"
        yield field, name, value, unit, None
