"""A workload against its scheduler, without a runner: what the step stream looks like before anything executes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .fake_worker import FakeWorker
from .scheduler import Scheduler
from .step import BlockIds, StepDelta, StepResult
from .workload import RequestFeed, Workload

StepTime = Callable[[StepDelta], int]
"""Virtual duration of a step, ns."""


@dataclass(frozen=True, slots=True)
class StepShape:
    """What a step asks of a runner.

    overlap          Jaccard index of the requests of this step and of the one before; None in the first
    blocks_installed block ids that travel: of new and resumed requests, and appended ones
    resent_tokens    length of the histories that travel again
    """

    step: int
    num_reqs: int
    num_tokens: int
    num_new: int
    num_resumed: int
    num_preempted: int
    num_finished: int
    blocks_installed: int
    resent_tokens: int
    overlap: float | None


def dry_run(workload: Workload, *, step_time: StepTime | None = None) -> list[StepShape]:
    """Shapes of the steps that `workload` makes, in order; every covered request samples a fixed token.

    Token values do not influence the schedule unless a resumed prompt hits cached blocks, so the stream is the one
    that a real run will see. With `step_time` None all arrivals are ignored: requests queue at once.
    """
    shapes: list[StepShape] = []
    before: frozenset[str] | None = None
    for delta in deltas(workload, step_time=step_time):
        now = frozenset(delta.num_scheduled_tokens)
        shapes.append(shape_of(delta, before))
        before = now
    return shapes


def deltas(workload: Workload, *, step_time: StepTime | None = None) -> Iterator[StepDelta]:
    """The step stream itself, to the last delta that tells of finished requests."""
    scheduler, feed, worker = Scheduler(workload.scheduler), RequestFeed(workload), FakeWorker(workload)
    resets = {event.step for event in workload.events}
    in_flight: deque[StepResult] = deque()
    now_ns, step = 0, 0
    while not feed.exhausted or scheduler.has_unfinished() or scheduler.has_pending_finished():
        now_ns = _arrive(scheduler, feed, now_ns, step_time)
        if step in resets:
            scheduler.forced_reset()
        while in_flight and not scheduler.has_work():
            scheduler.update(in_flight.popleft())
        delta = scheduler.schedule()
        covered = scheduler.covered(delta)
        yield delta
        in_flight.append(worker.run(delta, covered))
        if len(in_flight) >= workload.steps_in_flight:
            scheduler.update(in_flight.popleft())
        now_ns += step_time(delta) if step_time else 0
        step += 1


def _arrive(scheduler: Scheduler, feed: RequestFeed, now_ns: int, step_time: StepTime | None) -> int:
    """Add what has arrived; with nothing else to do, time jumps to the next arrival. The time afterwards."""
    next_ns = feed.next_arrival_ns
    idle = not scheduler.has_unfinished() and not scheduler.has_pending_finished()
    if next_ns is not None and (idle or step_time is None):
        now_ns = max(now_ns, next_ns)
    horizon = now_ns if step_time else 1 << 62
    for request in feed.take(horizon, scheduler.num_unfinished):
        scheduler.add_request(request)
    return now_ns


def shape_of(delta: StepDelta, before: frozenset[str] | None) -> StepShape:
    """The shape of `delta`; `before` are the requests of the step before it."""
    now = frozenset(delta.num_scheduled_tokens)
    union = len(now | before) if before is not None else 0
    cached = delta.cached
    return StepShape(
        step=delta.step,
        num_reqs=len(now),
        num_tokens=delta.total_num_scheduled_tokens,
        num_new=len(delta.new_requests),
        num_resumed=len(cached.resumed_req_ids),
        num_preempted=len(delta.preempted_req_ids),
        num_finished=len(delta.finished_req_ids),
        blocks_installed=sum(_count(request.block_ids) for request in delta.new_requests)
        + sum(_count(ids) for ids in cached.new_block_ids if ids is not None),
        resent_tokens=sum(len(tokens) for tokens in cached.all_token_ids.values()),
        overlap=len(now & before) / union if before is not None and union else None,
    )


def _count(block_ids: BlockIds) -> int:
    """Ids of all KV cache groups together."""
    return sum(len(ids) for ids in block_ids)
