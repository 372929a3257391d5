"""Plays the scheduler with a will of its own: it makes legal deltas that no sane scheduler would think of."""

from __future__ import annotations

import numpy as np
from stepscope.workloads.acceptance import parse_acceptance
from stepscope.workloads.step import CachedRequests, NewRequest, PromptEmbeds, SamplingParams, StepDelta

from .requests import VOCAB, Flight, Live, Turn, accepted, spoilt_drafts

IDLE = 10
"""The digit that schedules a request with no token at all."""


class Pool:
    """Blocks are handed out last in, first out: what one request gives back is somebody else's at once."""

    def __init__(self, num_blocks: int) -> None:
        self.free = list(range(num_blocks - 1, 0, -1))
        self.owners: dict[int, int] = {}

    def take(self, count: int) -> list[int]:
        blocks = [self.free.pop() for _ in range(count)]
        for block in blocks:
            self.owners[block] = 1
        return blocks

    def share(self, blocks: list[int]) -> list[int]:
        for block in blocks:
            self.owners[block] += 1
        return list(blocks)

    def give(self, blocks: list[int]) -> None:
        for block in blocks:
            if block:
                self.owners[block] -= 1
                if not self.owners[block]:
                    self.free.append(block)


class Puppeteer:
    """`requests` by id, in the order of scheduling; of the runner's `groups` only sizes and windows are looked at."""

    def __init__(self, config, groups, texts) -> None:
        self.config, self.groups, self.texts = config, groups, texts
        self.pool = Pool(config.num_blocks)
        self.requests: dict[str, Live] = {}
        self.step = 0
        self.ahead = config.token_handoff != "sync"
        self._finished: list[str] = []
        self._preempted: list[str] = []
        self._present: set[str] = set()  # in the step before
        self._asked = 0
        self.embedding: np.ndarray | None = None  # of the model, where prompts bring embeddings of their own tokens
        self.num_accepted = self.num_rejected = self.num_resumed = self.num_finished = 0

    def add(self, number: int) -> None:
        """A new request with one of the known prompts. Every third draws, with options that leave it one choice."""
        prompt, text, limit = self.texts[number % len(self.texts)]
        req_id = f"q{self._asked}-{number % len(self.texts)}"
        live = self.requests[req_id] = Live(req_id, prompt, text, limit)
        if self._asked % 3 == 1:
            live.sampling = SamplingParams(0.3 + self._asked % 7 / 10, 1, 1 - self._asked % 5 / 10, seed=self._asked)
        self._asked += 1

    def finish(self, number: int) -> None:
        """End one, whatever it is doing."""
        live = self._pick(number)
        if live is not None:
            self._end(live)

    def preempt(self, number: int) -> None:
        """Take its blocks. What is in flight counts for nothing."""
        live = self._pick(number)
        if live is not None and live.blocks is not None:
            self._lose(live)

    def reset(self, _=None) -> None:
        """Preempt all; they may come back in the very next step."""
        for live in self.requests.values():
            if live.blocks is not None:
                self._lose(live)

    def shuffle(self, number: int) -> None:
        """Another order of scheduling."""
        items = list(self.requests.items())
        np.random.default_rng(number).shuffle(items)
        self.requests = {str(req_id): live for req_id, live in items}

    def took(self, step: int, sampled) -> None:
        """A step came back: its flights land; who has enough ends."""
        for live in list(self.requests.values()):
            landed = [flight for flight in live.flights if flight.step == step]
            live.flights = [flight for flight in live.flights if flight.step != step]
            for flight in landed:
                behind = tuple(live.text[live.outputs : live.outputs + flight.got])
                assert sampled[live.req_id] == behind, f"step {step}: {live.req_id} shows {sampled[live.req_id]}"
                live.outputs += flight.got
                live.computed -= flight.rejected
                self.num_accepted += flight.got - 1
                self.num_rejected += flight.rejected
            if live.outputs >= live.limit:
                self._end(live)

    def make_step(self, digits: list[int]) -> tuple[StepDelta, dict[str, Turn]]:
        """The next delta and, by request, what it does. Digits say what becomes of the requests, in turn."""
        finished, preempted = frozenset(self._finished), tuple(self._preempted)
        self._finished, self._preempted = [], []
        budget, turns = self.config.max_num_batched_tokens, {}
        new, known, drafts = [], [], {}
        rows = self.config.max_num_seqs
        residents = sum(live.blocks is not None for live in self.requests.values())
        waits = [live for live in self.requests.values() if live.blocks is None]
        runs = [live for live in self.requests.values() if live.blocks is not None]
        for place, live in enumerate(runs + waits):
            digit = digits[place % len(digits)] if digits else 9
            entering = live.blocks is None
            if not digit or (entering and residents >= rows):
                continue
            turn = self._turn(live, digit, budget, preempted)
            if turn is None:
                continue
            turns[live.req_id], added, own = turn
            budget -= turns[live.req_id].count
            residents += entering
            if own:
                drafts[live.req_id] = tuple(own)
            if entering and not live.announced:
                new.append(self._announce(live, turns[live.req_id]))
            else:
                known.append((live, turns[live.req_id], added, entering))
            live.announced = True
        self.num_finished += len(finished)
        self.num_resumed += sum(entering for *_, entering in known)
        delta = self._delta(finished, preempted, (new, known), (turns, drafts))
        self.step += 1
        return delta, turns

    def _turn(self, live: Live, digit: int, budget: int, preempted):
        """(what is done, added blocks, drafts as the delta names them), or None."""
        entering = live.blocks is None
        if live.ended or (live.flights and not (self.ahead and live.sampled_step == self.step - 1)):
            return None
        if digit == IDLE and live.flights and self.config.correction == "device":
            return None  # lengths are corrected where something is computed
        hit, shared = self._found(live) if entering else (live.computed, None)
        left = live.counted - hit
        count = 0 if digit == IDLE else min(left if digit >= 5 else digit, left, budget)
        if count == 0 and (digit != IDLE or entering):
            return None
        own = [] if entering or count < left else self._drafts(live, digit, budget - count)
        added = self._blocks(live, hit + count + len(own), shared)
        if added is None:
            return None
        start = hit - live.rejected
        believed = hit if self.config.correction == "device" else start
        ids = live.all_tokens[start : start + count] + [max(draft, 0) for draft in own]
        shows: tuple[int, ...] = ()
        live.computed = hit + count + len(own)
        if count == left and count:
            behind = live.tokens_behind(start + count)
            got = 1 + accepted(own, behind)
            shows = tuple(behind[:got])
            live.flights.append(Flight(self.step, len(own), got))
            live.sampled_step = self.step
        blocks = [list(ids) for ids in live.blocks]
        turn = Turn(live.req_id, start, hit, believed, ids, shows, len(live.prompt), blocks)
        return turn, added, (-1,) * len(own) if self.ahead else own

    def _drafts(self, live: Live, digit: int, room: int) -> list[int]:
        """Named by the delta where nothing is in flight; else what the worker proposed behind the step before, if it
        was in that; on the device a draft of a step that is back already is lost.
        """
        most = self.config.num_drafts
        count = min(most, digit - 4, room)
        if not most or count <= 0 or digit == IDLE or (live.known == len(live.prompt) and not live.flights):
            return []
        if not self.ahead:
            right = (7 * digit + live.known) % (count + 2)
            behind = live.tokens_behind(live.known)[:count]
            return [token if place < right else (token + 1) % VOCAB for place, token in enumerate(behind)]
        if live.sampled_step != self.step - 1:
            return []
        if self.config.correction == "device" and not live.flights:
            return [-1] * count
        return spoilt_drafts(live, count, most, parse_acceptance(self.config.acceptance))

    def _found(self, live: Live):
        """A prefix of whole blocks that another request has computed: the tokens, and the blocks of each group."""
        if any(group.window is not None or not group.has_slots for group in self.groups):
            return 0, None
        size = self.groups[0].block_size
        best, donor = 0, None
        for other in self.requests.values():
            if other is live or other.blocks is None:
                continue
            same = 0
            for mine, theirs in zip(live.prompt, other.prompt, strict=False):
                if mine != theirs:
                    break
                same += 1
            whole = min(same, len(live.prompt) - 1, other.computed) // size
            if whole > best:
                best, donor = whole, other
        if donor is None:
            return 0, None
        return best * size, [ids[:best] for ids in donor.blocks]

    def _blocks(self, live: Live, length: int, shared):
        """Blocks up to `length` tokens in every group; what was added, None where the pool has too few."""
        have = live.blocks or shared or [[] for _ in self.groups]
        if live.blocks is not None:
            self._leave_windows(live)
        wanted = [
            max(-(-length // group.block_size) if group.has_slots else 1, len(ids)) - len(ids)
            for group, ids in zip(self.groups, have, strict=True)
        ]
        if sum(wanted) > len(self.pool.free):
            return None
        if live.blocks is None:
            live.blocks = [self.pool.share(ids) for ids in have]
        added = [self.pool.take(count) for count in wanted]
        for own, more in zip(live.blocks, added, strict=True):
            own.extend(more)
        return added

    def _leave_windows(self, live: Live) -> None:
        sure = live.computed - sum(flight.drafts for flight in live.flights)
        for group, ids in zip(self.groups, live.blocks, strict=True):
            if group.window is not None:
                for place in range(max(sure - group.window + 1, 0) // group.block_size):
                    self.pool.give(ids[place : place + 1])
                    ids[place] = 0

    def _announce(self, live: Live, turn: Turn) -> NewRequest:
        prompt = np.asarray(live.prompt, dtype=np.int32)
        return NewRequest(
            live.req_id, prompt, tuple(map(tuple, live.blocks)), turn.counted, live.sampling, self._embeds(prompt)
        )

    def _embeds(self, prompt: np.ndarray) -> PromptEmbeds | None:
        """What its own tokens would be embedded as, for some of them: wherever else it is put, the text changes."""
        places = np.flatnonzero(prompt % 3 == 0)
        if self.embedding is None or not places.size:
            return None
        return PromptEmbeds(places, self.embedding[prompt[places]])

    def _delta(self, finished, preempted, entries, made) -> StepDelta:
        (new, known), (turns, drafts) = entries, made
        columns: list[list] = [[], [], [], []]
        resumed, histories = [], {}
        for live, turn, added, entering in known:
            blocks = live.blocks if entering else added
            columns[0].append(live.req_id)
            columns[1].append(tuple(map(tuple, blocks)) if any(blocks) else None)
            columns[2].append(turn.counted)
            own = drafts.get(live.req_id, ())
            before = live.counted - (1 + len(own) if turn.shows else 0)
            columns[3].append(before - len(live.prompt))
            if entering:
                resumed.append(live.req_id)
            if entering or live.req_id not in self._present:
                histories[live.req_id] = np.asarray(live.all_tokens[: live.known], dtype=np.int32)
        self._present = set(turns)
        cached = CachedRequests(*map(tuple, columns), frozenset(resumed), histories)
        counts = {req_id: turn.count for req_id, turn in turns.items()}
        return StepDelta(self.step, tuple(new), cached, counts, finished, preempted, drafts)

    def _pick(self, number: int) -> Live | None:
        live = list(self.requests.values())
        return live[number % len(live)] if live else None

    def _lose(self, live: Live) -> None:
        self._release(live)
        live.flights, live.computed, live.sampled_step = [], 0, -9
        self._preempted.append(live.req_id)

    def _end(self, live: Live) -> None:
        self._release(live)
        del self.requests[live.req_id]
        if live.announced:
            self._finished.append(live.req_id)
        if live.req_id in self._preempted:
            self._preempted.remove(live.req_id)

    def _release(self, live: Live) -> None:
        for ids in live.blocks or ():
            self.pool.give(ids)
        live.blocks = None
