"""The model's greedy answers, computed before the run: synthetic drafts are taken from them."""

from __future__ import annotations

import dataclasses
from contextlib import closing

import numpy as np
import numpy.typing as npt

from ..instrumentation.probe.ledger import Ledger
from ..instrumentation.probe.null import NullProbe
from ..runner.config import RunnerConfig
from ..runner.devices import make_device
from ..runner.model_runner import build_runner
from ..workloads.acceptance import parse_acceptance
from ..workloads.scheduler import Scheduler
from ..workloads.step import SamplingParams
from ..workloads.workload import Workload
from .spec import PointSpec

Continuations = dict[str, npt.NDArray[np.int32]]


def continuations_of(spec: PointSpec, workload: Workload) -> Continuations | None:
    """Greedy answers to all requests of a resolved point, by a runner without drafts; None where nobody asks for them.

    Takes as long as the workload's computation does, on the point's device (a modelled one's mathematics runs on the
    CPU). Requests that draw their tokens go another way after a while, and reject the drafts from there on.
    """
    if not spec.runner.num_drafts or parse_acceptance(spec.runner.acceptance) is None:
        return None
    config = plain(spec.runner)
    scheduler = Scheduler(
        dataclasses.replace(workload.scheduler, num_speculative_tokens=0, async_scheduling=False, reserve_output=False)
    )
    ledger = Ledger()
    outputs: dict[str, list[int]] = {request.req_id: [] for request in workload.requests}
    with closing(make_device("cuda" if spec.device == "cuda" else "cpu", ledger=ledger)) as device:
        runner = build_runner(config, device, NullProbe(), ledger)
        for request in workload.requests:
            scheduler.add_request(dataclasses.replace(request, sampling=SamplingParams()))
        while scheduler.has_unfinished():
            for req_id, tokens in scheduler.update(runner.execute(scheduler.schedule())).items():
                outputs[req_id].extend(tokens)
            ledger.take()
        del runner  # before its device is closed
    return {req_id: np.asarray(tokens, dtype=np.int32) for req_id, tokens in outputs.items()}


def plain(config: RunnerConfig) -> RunnerConfig:
    """The runner that says the same without drafts: sizes, model and numerics stay, all else is the plainest."""
    defaults = RunnerConfig()
    kept = (
        "max_num_seqs", "max_num_batched_tokens", "max_model_len", "block_size", "num_blocks", "table_width",
        "kv_groups", "kernel_block_size", "dcp", "dcp_interleave", "model", "model_seed", "attention",
    )  # fmt: skip
    return dataclasses.replace(defaults, **{name: getattr(config, name) for name in kept})
