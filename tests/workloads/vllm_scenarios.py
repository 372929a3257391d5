"""Random loads for a scheduler, and the stream that ours makes of them, as a digest to compare with vLLM's.

The digests in `data/vllm_0_33_streams.json` are of vLLM 0.33's own Scheduler and AsyncScheduler (CPU, no model), which
got the same requests, in the same queue, and were answered with the same tokens.
"""

from __future__ import annotations

import hashlib
import random
from collections import deque
from dataclasses import dataclass

import numpy as np
from stepscope.workloads.requests import Request
from stepscope.workloads.scheduler import Scheduler, SchedulerConfig
from stepscope.workloads.step import StepResult

DEPTHS = {"plain": 1, "depth2": 2, "async": 2, "spec": 1, "asyncspec": 2, "groups": 1, "asyncgroups": 2}
_GROUPS = [("full", "window=64"), ("full", "window=128", "window=32"), ("full", "full")]


class Written(Request):
    """A request whose prompt is given."""

    __slots__ = ("tokens",)

    def prompt_token_ids(self):
        return np.array(self.tokens, dtype=np.int32)


@dataclass(frozen=True)
class Load:
    """Fields of the scheduler's configuration, and requests as (name, prompt, output tokens, step of arrival)."""

    limits: dict[str, object]
    requests: list[tuple[str, list[int], int, int]]
    depth: int


def load_of(mode: str, seed: int) -> Load:
    """The load of `mode` and `seed`; only integers of random.Random decide, so that it is the same everywhere."""
    pick = random.Random(f"{mode} {seed}")
    length = pick.choice([200, 400])
    limits: dict[str, object] = {
        "max_num_seqs": pick.choice([3, 8, 16]),
        "max_num_batched_tokens": pick.choice([16, 64, 100, 256]),
        "block_size": pick.choice([16, 32]),
        "enable_prefix_caching": pick.random() < 0.7,
        "long_prefill_token_threshold": pick.choice([0, 20, 64]),
        "prefill_schedule_interval": pick.choice([1, 2, 4]),
        "watermark": pick.choice([0.0, 0.1]),
        "reserve_full_input": pick.random() < 0.7,
        "max_model_len": length,
        "num_speculative_tokens": pick.choice([1, 4]) if "spec" in mode else 0,
        "async_scheduling": mode.startswith("async"),
        "deliver_late": True,
        "kv_groups": pick.choice(_GROUPS) if "groups" in mode else ("full",),
    }
    limits["num_blocks"] = -(-length // limits["block_size"]) * len(limits["kv_groups"]) + pick.choice([2, 4, 12])
    prefixes = [[pick.randrange(997) for _ in range(150)] for _ in range(2)]
    requests = []
    for index in range(pick.choice([10, 25])):
        count = pick.randint(2, 150)
        shared = pick.choice(prefixes)[: pick.choice([0, pick.randint(0, count)])]
        prompt = shared + [pick.randrange(997) for _ in range(count - len(shared))]
        requests.append((f"r{index}", prompt, pick.choice([1, 5, 20, 45]), pick.choice([0, pick.randint(0, 30)])))
    return Load(limits, requests, DEPTHS[mode])


def answer(name: str, step: int, num_drafts: int) -> tuple[int, ...]:
    """The tokens that a request shows in a step: none, some, or all of its drafts are right."""
    right = (len(name) + 7 * step + int(name[1:])) % 3 * num_drafts // 2
    return tuple((31 * int(name[1:]) + 7 * step + place) % 997 for place in range(1 + right))


def row(scheduled, new, cached, resumed, finished, preempted, drafts) -> str:
    """One step in words: pairs in the scheduler's order, sets sorted, block ids as lists of lists."""
    return repr((scheduled, new, cached, sorted(resumed), sorted(finished), sorted(preempted), sorted(drafts)))


def our_stream(load: Load, most: int = 400) -> tuple[int, str]:
    """Steps that our scheduler makes of `load`, at most `most`, and the digest of their rows."""
    scheduler = Scheduler(SchedulerConfig(**load.limits))  # type: ignore[arg-type]
    drafts = (1,) * int(load.limits["num_speculative_tokens"])  # type: ignore[call-overload]
    digest, queue, step = hashlib.sha256(), deque[StepResult](), 0
    last = max(arrival for *_, arrival in load.requests)
    while step < most and (step <= last or scheduler.has_unfinished() or scheduler.has_pending_finished()):
        for name, prompt, output, arrival in load.requests:
            if arrival == step:
                request = Written(name, len(prompt), output, 997)
                object.__setattr__(request, "tokens", prompt)
                scheduler.add_request(request)
        delta = scheduler.schedule()
        cached, verified = delta.cached, delta.scheduled_spec_decode_tokens
        rows = [None if ids is None else [list(group) for group in ids] for ids in cached.new_block_ids]
        text = row(
            list(delta.num_scheduled_tokens.items()),
            [(new.req_id, new.num_computed_tokens, [list(ids) for ids in new.block_ids]) for new in delta.new_requests],
            list(zip(cached.req_ids, rows, cached.num_computed_tokens, cached.num_output_tokens, strict=True)),
            cached.resumed_req_ids, delta.finished_req_ids, delta.preempted_req_ids,
            [(name, len(ids)) for name, ids in verified.items()],
        )
        digest.update(text.encode())
        shown = {name: answer(name, step, len(verified.get(name, ()))) for name in scheduler.covered(delta)}
        queue.append(StepResult(delta.step, shown, dict.fromkeys(shown, drafts) if drafts else {}))
        while queue and (len(queue) >= load.depth or not delta.num_scheduled_tokens):
            scheduler.update(queue.popleft())
        step += 1
    return step, digest.hexdigest()[:16]
