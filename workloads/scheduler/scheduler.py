"""Continuous batching: which requests get how many tokens in the next step, and which blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from ...errors import BrokenInvariant, UsageError
from ..requests import Request
from ..step import PLACEHOLDER, BlockIds, StepDelta, StepResult
from .config import SchedulerConfig
from .draft import StepDraft
from .intake import TokenIntake
from .kv_cache import KVCache
from .limits import token_limit
from .prefill_cadence import PrefillCadence
from .speculation import NO_DRAFTS, Drafts, drop_drafts, take_drafts, within_model_len
from .state import NEVER, RequestState


class Scheduler:
    """First come, first served, with vLLM's V1 semantics (0.33; reference: its recorded step streams).

    Running requests first, in list order, whatever they have left to compute: there are no phases, a decode is a
    request with one token left. Without a free block the youngest running request is preempted: it loses its blocks
    and goes back to the head of the queue. Waiting requests enter only in a step without preemption, and the first
    one that does not fit stops the rest.

    The caller owns the loop: `add_request` as requests arrive, then `schedule` -> run -> `update`. Several steps may
    be scheduled before the first is updated. A request whose token is still in flight is then left out of the next;
    with `async_scheduling` it goes on, for the worker has the token on the device, as long as no step is left out.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self._async = config.async_scheduling
        self._kv = KVCache(config)
        self._intake = TokenIntake(config, self._kv)
        self._waiting: deque[RequestState] = deque()
        self._running: list[RequestState] = []
        self._states: dict[str, RequestState] = {}
        self._covered: dict[int, list[str]] = {}  # who samples, by step that was not updated yet
        self._drafted: dict[int, Mapping[str, Drafts]] = {}  # what is verified, likewise
        self._next_drafts: Drafts = (PLACEHOLDER,) * (config.num_speculative_tokens if self._async else 0)
        self._finished: list[str] = []  # told to the worker by the next delta
        self._reset: list[str] = []  # preempted by forced_reset, told by the next delta
        self._next_step = 0
        self._last_update = -1
        self._cadence = PrefillCadence(config.prefill_schedule_interval)

    @property
    def num_unfinished(self) -> int:
        """Requests added and not yet answered in full."""
        return len(self._states)

    @property
    def ended(self) -> Mapping[str, int]:
        """The requests that the last update ended, and how many tokens short of their limit a stop token cut them."""
        return self._intake.ended

    @property
    def num_free_blocks(self) -> int:
        """Blocks that can be handed out, hashed ones included."""
        return self._kv.pool.num_free

    def has_unfinished(self) -> bool:
        """Some request is not answered in full."""
        return bool(self._states)

    def has_pending_finished(self) -> bool:
        """Requests ended that no delta has told of: one more, empty, step tells the worker."""
        return bool(self._finished)

    def has_work(self) -> bool:
        """A step scheduled now would tell of requests that ended or were preempted, or probably compute something.
        False while everybody waits for a token in flight: then collect one first.
        """
        room = len(self._running) < self.config.max_num_seqs and self.num_free_blocks
        if self._finished or self._reset or (room and not all(self._awaits_late(state) for state in self._waiting)):
            return True
        before = self._next_step - 1
        return any(
            state.num_tokens > state.num_computed or (state.num_placeholders and self._goes_on(state, before))
            for state in self._running
        )

    def add_request(self, request: Request) -> None:
        """Queue one request. Raises UsageError when its id is taken, or when it can never run (see `token_limit`).

        Its prompt is drawn and hashed here, not in the step that admits it: between steps this would be measured.
        """
        if request.req_id in self._states:
            raise UsageError(f"request {request.req_id}: a request of this id is unfinished; ids must differ")
        limit = token_limit(request, self.config)
        state = RequestState(request, limit, self._next_step)
        self._kv.prepare(state)
        self._states[request.req_id] = state
        self._waiting.append(state)

    def schedule(self) -> StepDelta:
        """The next step. It may schedule nothing, and still tell of finished or preempted requests."""
        draft = StepDraft(self._next_step, self.config.max_num_batched_tokens, self._next_drafts)
        held = self._cadence.holds(self._running)
        self._schedule_running(draft, held)
        if not draft.preempted:
            self._admit(draft, held)
        self._cadence.note(bool(draft.scheduled))
        self._check_progress(draft)
        self._covered[draft.step] = draft.covered
        self._drafted[draft.step] = draft.drafts
        delta = draft.finish(frozenset(self._finished), self._reset)
        self._finished = []
        self._reset = []
        self._next_step += 1
        return delta

    def covered(self, delta: StepDelta) -> list[str]:
        """Requests of `delta`, not yet updated, whose history it computes to the end: exactly these must sample."""
        return self._covered[delta.step]

    def update(self, result: StepResult) -> Mapping[str, tuple[int, ...]]:
        """Take the tokens that became visible (see `TokenIntake`); end what is answered in full. Returns the tokens
        that were taken.
        """
        taken = self._intake.take(result, self._states, self._drafted.pop(result.step, {}))
        if result.drafts and not self._async:
            self._intake.take_proposals(result, self._states)
        self._last_update = result.step
        self._covered.pop(result.step, None)
        if self.ended:
            self._end(self.ended.keys())
        return taken

    def forced_reset(self) -> None:
        """Preempt everything that runs and forget all cached prefixes, as after a change of weights.

        The next delta names the preempted requests, and may resume some of them at once. The head of the queue is
        then the request that has run longest.
        """
        while self._running:
            victim = self._running.pop()
            self._preempt(victim, drop=True)
            self._reset.append(victim.req_id)
        for state in self._waiting:
            state.last_step = NEVER
        self._kv.pool.forget_all()

    def _schedule_running(self, draft: StepDraft, held: bool) -> None:
        index, running, ahead, grain, before = 0, self._running, self._async, self._kv.grain, draft.step - 1
        while index < len(running) and draft.budget > 0:
            state = running[index]
            index += 1
            if state.num_placeholders and not self._goes_on(state, before):
                continue  # its last token is still in flight
            if ahead and state.last_step != before:
                state.drafts = NO_DRAFTS  # placeholders name drafts of the step before, and it sat that out
            count = state.num_tokens + state.num_placeholders - state.num_computed + len(state.drafts)
            if count != 1:
                count = self._chunk(within_model_len(state, count, self.config.max_model_len), draft.budget)
            if count <= 0 or (held and state.partial):
                continue  # no room is left, if all drafts in flight are accepted; or this is a step without prefill
            end = state.num_computed + count
            if self._kv.has_windows:
                self._kv.leave_behind(state, state.settled(self._last_update))
            added = () if end <= state.capacity else self._grow(state, end, draft)
            if added is None:
                return  # it preempted itself, and it was the last in the list
            self._cadence.prefill |= state.partial
            draft.add_known(state, count, added, take_drafts(state, end) if state.drafts else NO_DRAFTS)
            if state.num_tokens >= state.num_cached_tokens + grain <= end:
                self._kv.remember(state, end)

    def _goes_on(self, state: RequestState, before: int) -> bool:
        """Whether a request whose token is in flight may be scheduled on top of it: not when that token is known to be
        its last, and not when it sat out the step `before`, for the worker finds the token in the step before only.
        """
        if not self._async or state.last_step != before:
            return False
        return state.num_tokens + state.num_placeholders - state.num_drafts_in_flight < state.limit

    def _grow(self, state: RequestState, num_tokens: int, draft: StepDraft) -> BlockIds | None:
        """Blocks for a running request, taken from the youngest ones if none is free. None: it was the youngest."""
        while (added := self._kv.grow(state, num_tokens)) is None:
            victim = self._running.pop()
            self._preempt(victim)
            draft.preempted.append(victim.req_id)
            if victim is state:
                return None
        return added

    def _admit(self, draft: StepDraft, held: bool) -> None:
        """Waiting requests in order, up to the first that does not fit; those whose tokens are still to come are passed
        over and keep their places.
        """
        passed: list[RequestState] = []
        while self._waiting and draft.budget > 0 and len(self._running) < self.config.max_num_seqs:
            if self._awaits_late(self._waiting[0]):
                passed.append(self._waiting.popleft())
            elif not self._admit_first(draft, held):
                break
        if not held:
            self._cadence.backed_up = bool(self._waiting)
        self._waiting.extendleft(reversed(passed))

    def _admit_first(self, draft: StepDraft, held: bool) -> bool:
        """The head of the queue enters the batch, or nothing happens and False."""
        config, state = self.config, self._waiting[0]
        hit = self._kv.find_prefix(state)
        left = state.num_tokens - hit.num_tokens
        if held and left > 1:
            return False
        count = self._chunk(left, draft.budget)
        if not config.enable_chunked_prefill and left > draft.budget:
            return False
        keep_free = config.watermark_blocks if self._running else 0
        if not self._kv.admit(state, hit, hit.num_tokens + count, keep_free):
            return False
        self._waiting.popleft()
        self._running.append(state)
        draft.add_admitted(state, count)
        self._kv.remember(state, state.num_computed)
        self._cadence.prefill |= left > 1
        return True

    def _awaits_late(self, state: RequestState) -> bool:
        """Steps that scheduled it before it was preempted are in flight: resumed now, it would sample anew what one of
        them may bring.
        """
        return state.stale_through > self._last_update

    def _chunk(self, left: int, budget: int) -> int:
        """How many of `left` tokens a request gets: the threshold shares the budget, unless nobody shares it."""
        threshold = self.config.long_prefill_token_threshold
        if 0 < threshold < left and len(self._states) > 1:
            left = threshold
        return min(left, budget)

    def _preempt(self, state: RequestState, drop: bool = False) -> None:
        """Recompute later: blocks go back, the history stays, it waits before all others.

        `drop`: what is in flight does not count, so that it may be resumed at once. Still in flight when it is
        preempted again, that stays so for all of it: its places have been sampled anew.
        """
        self._kv.release(state)
        drop_drafts(state)
        if drop or state.dropped_through > self._last_update:
            state.valid_from_step = self._next_step
            state.dropped_through = max(state.dropped_through, state.last_step)
            state.stale_through = NEVER
        else:
            state.stale_through = state.last_step
        self._waiting.appendleft(state)

    def _end(self, ended: Collection[str]) -> None:
        """Free in scheduling order, not in the order of the result: the order of reuse must not depend on rows."""
        for state in (*self._running, *self._waiting):
            if state.req_id in ended:
                self._kv.release(state)
                del self._states[state.req_id]
                self._finished.append(state.req_id)
        self._running = [state for state in self._running if state.req_id not in ended]
        if any(state.req_id in ended for state in self._waiting):
            self._waiting = deque(state for state in self._waiting if state.req_id not in ended)

    def _check_progress(self, draft: StepDraft) -> None:
        """A step that moves nothing while no result is awaited would repeat for ever: a token was not delivered."""
        in_flight = self._last_update < self._next_step - 1
        if draft.scheduled or draft.preempted or in_flight or not self._states:
            return
        stuck = next(iter(self._states))
        raise BrokenInvariant("every_covered_request_samples", self._next_step, f"{stuck} has no token to go on with")
