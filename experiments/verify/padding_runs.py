"""Checks of padding on runners: answers that it must not change, and what a graph's size costs at any KV length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from msgspec import structs

from ...instrumentation.probe import Ledger, NullProbe
from ...runner.config import RunnerConfig
from ...runner.devices import make_device
from ...runner.devices.base import GraphKey, Work
from ...runner.devices.calibration import Calibration, load_calibration
from ...runner.devices.cuda_factory import make_cuda
from ...runner.devices.sim_clock import DeclaredHost
from ...runner.model_runner import ModelRunner, build_runner
from ..calibrate.bench import GpuBench
from ..own_costs.kernels import KernelTimes, replay_kernels
from ..own_costs.replays import measure_replays
from ..own_costs.shapes import ReplayShape
from .answers import SIZES, answers, random_requests
from .check import Check, Finding, Setting, exact, replaced, within
from .gpu import NEEDS, WHY

KV_LENGTHS = (512, 8192)
ROWS, SIZE = 72, 96
"""Real rows, and the graph that they are padded to."""
LEAST_NS, SHARE = 8_000, 0.1
EMPTY_NS, EMPTY_SHARE = 16_000, 0.01
"""What attention may take more for rows of padding: 1 us a layer, for programs that find nothing to do have to be
started, or 1 %. Rows with a past as long as the others' take a third more."""
RUNNERS, LOOKS = 3, 6
"""Looks differ because of the moment, runners because of where their graphs' memory happens to lie. So the runners live
side by side, each in memory of its own. Of whole replays even their mean does not tell what padding costs beside 5 ms
of attention: 15.1, 8.5 and 13.7 us at KV 512, and 14.7, 0.05 and 4.9 us at KV 8192, on three H200. The kernels do."""
CAPTURED: dict[str, dict[str, Any]] = {
    "exact sizes": {"graph_mode": "full", "capture_sizes": tuple(range(1, SIZES["max_num_batched_tokens"] + 1))},
    "padded to 48": {"graph_mode": "full", "capture_sizes": (48,)},
    "pieces padded to 24 or 48": {"graph_mode": "piecewise", "capture_sizes": (24, 48)},
}


def _tokens(setting: Setting) -> Sequence[Finding]:
    """Tokens stay the same: random requests run eagerly, in graphs of their exact size, and padded."""
    requests = random_requests(setting.random("tokens"), setting.count(24, 8))
    device = "cuda" if setting.device == "cuda" else "sim"
    eager, _ = answers(requests, device, slot_mapping="torch")
    findings = []
    for name, switches in CAPTURED.items():
        found, _ = answers(requests, device, slot_mapping="torch", **switches)
        wrong = sum(found[req_id] != eager[req_id] for req_id in eager)
        findings.append(exact(f"{name}: of {len(eager)} answers unlike the eager ones", 0, wrong))
    return findings


def _modelled(setting: Setting) -> Sequence[Finding]:
    """On the modelled device a larger graph costs what its calibration says more, however long the sequences are."""
    more_ns = setting.random("modelled").randint(1_000, 100_000)
    costs = _with_padding(load_calibration("h200"), more_ns)
    ledger = Ledger()
    with closing(make_device("sim", ledger=ledger, calibration=costs, host=DeclaredHost({}))) as device:
        for size in (ROWS, SIZE):
            device.capture(GraphKey("full", size, size), lambda: torch.zeros(1))
            for length in KV_LENGTHS:
                device.replay(GraphKey("full", size, size), Work("forward", size, ROWS, ROWS * length))
        device.synchronize()
    times = [row[6] - row[5] for row in ledger.take()["spans"] if row[3] == "graph"]
    return [
        exact(f"{ROWS} rows of KV {length} in a graph of {SIZE}: what padding costs, ns", more_ns, padded - actual)
        for length, actual, padded in zip(KV_LENGTHS, times[:2], times[2:], strict=True)
    ]


def _with_padding(known: Calibration, more_ns: int) -> Calibration:
    """A calibration in which a graph of SIZE takes `more_ns` longer than one of ROWS, on every model."""
    models = {}
    for name, model in known.models.items():
        graph_ns = dict(zip(model.sizes, model.graph_ns, strict=True))
        graph_ns[SIZE] = graph_ns[ROWS] + more_ns
        models[name] = structs.replace(model, graph_ns=tuple(graph_ns.values()))
    return structs.replace(known, models=models)


def _measured(setting: Setting) -> Sequence[Finding]:
    """The same on a GPU: graphs of both sizes are replayed in turns over equal rows. Compared is what all
    kernels but attention's take; attention over rows of padding has to be free.
    """
    costs = padding_costs(KV_LENGTHS, setting)
    return [_equal(costs), *(_free(length, [of[at] for of in costs]) for at, length in enumerate(KV_LENGTHS))]


def _equal(costs: Sequence[Sequence[PaddingCost]]) -> Finding:
    short, long = (float(value) for value in np.mean([[cost.other_ns for cost in of] for of in costs], axis=0))
    of_each = ", ".join(f"{(of[1].other_ns - of[0].other_ns) / 1e3:.1f}" for of in costs)
    whole = " and ".join(f"{np.mean([of[at].whole_ns for of in costs]) / 1e3:.1f}" for at in range(len(KV_LENGTHS)))
    allowed = max(LEAST_NS, SHARE * abs(short))
    first, last = KV_LENGTHS
    planted = f"{ROWS} rows in a graph of {SIZE}: kernels but attention's {short / 1e3:.1f} us more at KV {first}; at"
    planted += f" {last} that and (of each runner {of_each}; whole replays {whole} us more)"
    return within(planted, (long - short) / 1e3, -allowed / 1e3, allowed / 1e3, "us")


def _free(length: int, costs: Sequence[PaddingCost]) -> Finding:
    more, base = (float(np.mean([getattr(cost, name) for cost in costs])) for name in ("attention_ns", "base_ns"))
    allowed = max(EMPTY_NS, EMPTY_SHARE * base)
    found = more / 1e3 if base else float("inf")  # no kernel has attention's name: nothing was measured
    planted = f"attention over {ROWS} rows of KV {length} ({base / 1e3:.1f} us) in a graph of {SIZE}: it and"
    return within(planted, found, -allowed / 1e3, allowed / 1e3, "us")


@dataclass(frozen=True, slots=True)
class PaddingCost:
    """By how much a replay of SIZE takes longer than one of ROWS, in ns, at ROWS real rows of one KV length.

    whole_ns      by events around replays, the median of all looks
    other_ns      all kernels but attention's: G(SIZE) - G(ROWS)
    attention_ns  attention's kernels, which take `base_ns` in the replay of ROWS
    """

    whole_ns: float
    other_ns: float
    attention_ns: float
    base_ns: float


def padding_costs(lengths: Sequence[int], setting: Setting) -> list[list[PaddingCost]]:
    """Of each runner and each KV length what padding costs, on llama-1b."""
    blocks = ROWS * (max(lengths) // 16 + 1) + 1
    config = RunnerConfig(
        model="llama-1b", max_num_seqs=SIZE, max_model_len=max(lengths) + 16, max_num_batched_tokens=2048,
        graph_mode="full", capture_sizes=(ROWS, SIZE), num_blocks=blocks,
    )  # fmt: skip
    shapes = [ReplayShape("full", SIZE, ROWS, ROWS, 0, ROWS * length, 1, 1.0) for length in lengths]
    alive: list[ModelRunner] = []
    found = []
    with ExitStack() as stack:
        for _ in range(setting.count(RUNNERS, 1)):
            ledger = Ledger()
            device = stack.enter_context(closing(make_cuda(ledger, timing=False)))
            alive.append(runner := build_runner(config, device, NullProbe(), ledger))
            bench = GpuBench()  # on this device's stream, which is the current one
            looks = [measure_replays(runner, config, bench, shapes) for _ in range(setting.count(LOOKS, 2))]
            whole = np.median([[cost.padded_ns - cost.actual_ns for cost in costs] for costs in looks], axis=0)
            pairs = [replay_kernels(runner, config, bench, shape) for shape in shapes]
            found.append([_cost(float(ns), *pair) for ns, pair in zip(whole, pairs, strict=True)])
    return found


def _cost(whole_ns: float, padded: KernelTimes, actual: KernelTimes) -> PaddingCost:
    return PaddingCost(
        whole_ns, padded.other_ns - actual.other_ns, padded.attention_ns - actual.attention_ns, actual.attention_ns
    )


CHECKS = (
    Check(
        group="padding", name="tokens", point=12, run=_tokens,
        mutants={
            "padding_is_written": replaced("runner.inputs.slot_mapping", "PAD_SLOT", lambda whole: 16),
        },
    ),
    Check(
        group="padding", name="modelled", point=12, run=_modelled,
        mutants={
            "padding_is_free": replaced(
                "runner.devices.costs", "CostModel.full_graph",
                lambda whole: lambda self, tokens, work: whole(self, work.rows, work),
            ),
            "attention_of_padding": replaced(
                "runner.devices.costs", "CostModel.full_graph",
                lambda whole: lambda self, tokens, work: whole(self, tokens, _padded(tokens, work)),
            ),
        },
    ),
    Check(
        group="padding", name="measured", point=12, run=_measured, needs=NEEDS, why=WHY, seeded=False,
        mutants={
            "padding_has_a_past": replaced(
                "experiments.own_costs.replays", "fill_step",
                lambda whole: lambda containers, shape, *more: _with_a_past(whole, containers, shape, *more),
            ),
        },
    ),
)  # fmt: skip


def _padded(tokens: int, work: Work) -> Work:
    return work._replace(kv_tokens=work.kv_tokens * tokens // work.rows)


def _with_a_past(fill: Callable[..., Any], containers: Any, shape: ReplayShape, *more: Any) -> Any:
    inputs = fill(containers, shape, *more)
    containers.seq_lens[shape.rows : shape.size].fill_(shape.kv_tokens // shape.rows)
    return inputs
