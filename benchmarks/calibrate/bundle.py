"""Turns the raw figures of measure.py into the calibration file that the package carries.

    python benchmarks/calibrate/bundle.py benchmarks/results/h200/calibration_raw.json runner/data/h200.json

Three things are derived here and nowhere else: attention's affine cost (weighted least squares, relative errors), the
host time of an eager stack (the median over all sizes: launching costs the same whatever the kernels' size) and the
queue-state constants (medians over sizes). The fit's residuals are printed.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np


def affine(amounts: list[float], times: list[float], layers: int) -> tuple[float, int, str]:
    """(rate, floor) of `layers` layers by relative least squares, and the residuals in words."""
    x, y = np.array(amounts, float), np.array(times, float)
    design = np.stack([x, np.ones_like(x)], axis=1) / y[:, None]
    rate, floor = np.linalg.lstsq(design, np.ones_like(y), rcond=None)[0]
    floor = max(floor, 0.0)
    errors = np.abs((rate * x + floor) / y - 1)
    words = f"median |error| {np.median(errors):.1%}, worst {errors.max():.1%} of {len(y)} points"
    return rate * layers, round(floor * layers), words


def stairs(points: list[list[float]]) -> dict[str, list[int]]:
    return {"rows": [int(rows) for rows, _ in points], "ns": [round(ns) for _, ns in points]}


def model(raw: dict[str, Any]) -> dict[str, Any]:
    shape, stack, eager = raw["shape"], raw["stack"], raw["eager"]
    layers = shape["layers"]
    decode = raw["attention"]["decode"]
    rate, floor, words = affine([n * kv for n, kv, _ in decode], [ns for *_, ns in decode], layers)
    print("decode attention:", words)
    prefill = raw["attention"]["prefill"]
    pair_rate, pair_floor, words = affine([q * (q + 1) / 2 for q, _ in prefill], [ns for _, ns in prefill], layers)
    print("prefill attention:", words)
    host = round(statistics.median(host for *_, host in eager))
    return {
        **{key: shape[key] for key in ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab")},
        "kernels_per_layer": 8,
        "sizes": stack["sizes"],
        "graph_ns": [round(ns) for ns in stack["graph_ns"]],
        "kernel_hash": stack["kernel_hash"],
        "eager": {
            "sizes": [int(n) for n, *_ in eager],
            "span_ns": [round(span) for _, span, _ in eager],
            "host_ns": [host] * len(eager),
        },
        "attention": {
            "decode_ns_per_kv_token": round(rate, 4), "decode_floor_ns": floor,
            "prefill_ns_per_pair": round(pair_rate, 6), "prefill_floor_ns": pair_floor,
        },
        "operations": {kind: stairs(points) for kind, points in raw["heads"].items()},
    }


def bundle(raw: dict[str, Any], source: str) -> dict[str, Any]:
    host, latency, bias = raw["host_cost_ns"], raw["latency_ns"], raw["event_bias_ns"]
    curves = raw["copy_curves"]
    async_host = {kind: round(statistics.median(h for *_, h in curves[kind])) for kind in ("h2d_pinned", "d2h_pinned")}
    largest, fastest_ns, _ = curves["h2d_pinned"][-1]
    return {
        "gpu": raw["gpu"], "driver": raw["driver"], "torch": raw["torch"], "date": raw["date"], "source": source,
        "host_cost_ns": {
            "launch": round(host["launch"]),
            "launch_by_kind": {"slot_mapping": round(host["slot_mapping_launch"])},
            "graph_launch": round(host["graph_launch"]), "graph_launch_piece": round(host["graph_launch_layer"]),
            "copy_h2d_pinned": async_host["h2d_pinned"], "copy_d2h_pinned": async_host["d2h_pinned"],
            "event_record": round(host["event_record"]), "stream_wait_event": round(host["stream_wait_event"]),
            "event_synchronize": round(host["event_synchronize_done"]),
            "pinned_alloc": round(host["pinned_alloc_cached"]),
        },
        "launch_latency_ns": {"kernel": round(latency["launch_latency"]), "copy": round(latency["copy_latency"]),
                              "graph": round(latency["graph_launch_latency"])},
        "sync_wakeup_ns": round(latency["graph_launch_sync_wakeup"]),
        "event_bias_ns": {state: round(statistics.median(bias[state].values())) for state in ("idle", "queued")},
        "copy_curves": {kind: [[int(size), round(ns), round(h)] for size, ns, h in points]
                        for kind, points in curves.items()},
        "peak_copy_bytes_per_s": round(largest / fastest_ns * 1e9),
        "models": {"llama-1b": model(raw)},
    }


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    content = bundle(json.loads(source.read_text()), source.as_posix())
    text = json.dumps(content, indent=1)
    target.write_text(text.replace(",\n    ", ", ") + "\n")
    print(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
