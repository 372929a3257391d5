"""Whole decode steps of the runner as the profiler sees the GPU: graphs, copies, slot mapping and sampling."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from kernel_timing import busy_us, by_name, device_intervals
from stepscope.experiments.loop import LoopLimits, StepLoop
from stepscope.experiments.resolve import resolve, workload_of
from stepscope.instrumentation.probe import Ledger, NullProbe
from stepscope.runner.devices import make_device
from stepscope.runner.model_runner import build_runner
from stepscope.runner.models.weights import DecoderWeights, shared_weights

CASES = (("small-1024", 512), ("llama-1b", 512), ("llama-1b", 4096))
ROWS, OUTPUTS, WARM, STEPS, BUDGET = 64, 64, 12, 32, 8192
BRIDGED_US = 10.0


def measure() -> list[dict[str, Any]]:
    with shared_weights():
        return [decode_steps(model, prompt) for model, prompt in CASES]


def decode_steps(model: str, prompt: int, device: str = "cuda") -> dict[str, Any]:
    """STEPS steps of ROWS decodes behind prompts of `prompt` tokens; on a GPU one full graph each."""
    prefills = -(-ROWS * prompt // BUDGET)  # steps in which early rows decode already
    outputs = OUTPUTS + prefills
    spec = resolve({
        "workload": {
            "regime": "steady", "scheduler": {"reserve_output": True},
            "settings": {"num_reqs": ROWS, "prompt_len": prompt, "output_len": outputs},
        },
        "runner": {
            "model": model, "graph_mode": "full_decode_only" if device == "cuda" else "none", "capture_sizes": [ROWS],
            "max_model_len": prompt + outputs, "num_blocks": 2 + ROWS * -(-(prompt + outputs) // 16),
            "max_num_batched_tokens": BUDGET,
        },
        "device": device, "measure": {"steps": outputs},
    })  # fmt: skip
    ledger = Ledger()
    with closing(make_device(device, ledger=ledger)) as opened:
        probe = NullProbe()
        runner = build_runner(spec.runner, opened, probe, ledger)
        loop = StepLoop(workload_of(spec), runner, probe, opened)

        def run(steps: int) -> None:
            loop.run(LoopLimits(steps=loop.num_steps + steps))

        run(prefills + WARM)
        ledger.take()
        intervals = device_intervals(lambda: run(STEPS)) if device == "cuda" else run(STEPS) or []
        found = _figures(runner.executor._model, prompt + prefills / 2 + WARM + STEPS / 2, intervals)
        found["dispatch"] = sorted({str(row[2:]) for row in ledger.take()["dispatch"]})
    return {"model": model, "prompt": prompt, **found}


def _figures(model: Any, kv_len: float, intervals: list[tuple[str, float, float]]) -> dict[str, Any]:
    shape = model.config
    per_token = 2 * shape.num_key_value_heads * shape.head_dim * 2 * shape.num_hidden_layers
    return {
        "rows": ROWS, "steps": STEPS, "busy_us": round(busy_us(intervals) / STEPS, 1),
        "busy_with_gaps_us": round(busy_us(intervals, BRIDGED_US) / STEPS, 1), "bridged_us": BRIDGED_US,
        "activities": len(intervals) / STEPS, "kernels": by_name(intervals, STEPS)[:24],
        "weight_bytes": weight_bytes(model.weights), "kv_len": kv_len, "kv_bytes": round(ROWS * kv_len * per_token),
    }  # fmt: skip


def weight_bytes(weights: DecoderWeights) -> int:
    """What a decode step reads of the weights: all matrices, of the embedding only the head's use of it."""
    matrices = (m for layer in weights.layers for m in (layer.qkv, layer.output, layer.gate_up, layer.down))
    return sum(matrix.nbytes for matrix in matrices) + weights.lm_head.nbytes
