"""A runner under fire: operations go to the puppeteer, its deltas to the runner, and every array of every step is
compared with what the reference spells out.
"""

from __future__ import annotations

import random
from collections import deque
from functools import cache

import numpy as np
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.probe.null import NullProbe
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices import make_device
from stepscope.runner.kv_groups import resolve_groups
from stepscope.runner.model_runner import build_runner
from stepscope.workloads.step import CachedRequests, NewRequest, StepDelta

from .puppeteer import IDLE, Puppeteer
from .reference import Rows, spell_out
from .requests import VOCAB

SIZES = {
    "max_num_seqs": 6, "max_num_batched_tokens": 40, "max_model_len": 80, "block_size": 4, "num_blocks": 44,
    "check": "every", "model": "micro",
}  # fmt: skip
NUM_PROMPTS, LONGEST_TEXT, SHARED_PREFIX = 12, 40, 9
PLAIN = {"max_num_seqs": NUM_PROMPTS, "max_num_batched_tokens": 400, "num_blocks": 700, "check": "off"}


def make(known=None, device="cpu", **switches):
    """A runner by its switches. Memory is page-locked on `sim` only: `cpu` has none, and all staging is pageable."""
    ledger = Ledger()
    config = RunnerConfig(**(SIZES | switches))
    return build_runner(config, make_device(device, ledger=ledger), NullProbe(), ledger, continuations=known), config


@cache
def texts_of(model: str, kv_groups: tuple[str, ...]) -> list[tuple[list[int], list[int], int]]:
    """(prompt, what the model says behind it, tokens that are asked for): by a plain run, all prompts side by side.

    Every second prompt begins as the one before it does.
    """
    rng = np.random.default_rng(7)
    prompts = [rng.integers(0, VOCAB, size).tolist() for size in rng.integers(2, 24, NUM_PROMPTS)]
    for number in range(1, NUM_PROMPTS, 2):
        prompts[number] = (prompts[number - 1][:SHARED_PREFIX] + prompts[number])[:30]
    runner, config = make(model=model, kv_groups=kv_groups, **PLAIN)
    width = config.max_model_len // config.block_size
    blocks = [tuple(range(1 + n * width, 1 + (n + 1) * width)) for n in range(NUM_PROMPTS * len(kv_groups))]
    new = [
        NewRequest(f"t{n}", np.asarray(prompt, dtype=np.int32), tuple(blocks[n :: NUM_PROMPTS]))
        for n, prompt in enumerate(prompts)
    ]
    ids, texts = tuple(request.req_id for request in new), [[] for _ in prompts]
    delta = StepDelta(0, tuple(new), num_scheduled_tokens=dict(zip(ids, map(len, prompts), strict=True)))
    for step in range(1, LONGEST_TEXT + 1):
        sampled = runner.execute(delta).sampled
        for text, req_id in zip(texts, ids, strict=True):
            text.extend(sampled[req_id])
        counts = tuple(len(prompt) + step - 1 for prompt in prompts)
        cached = CachedRequests(ids, (None,) * len(ids), counts, (step,) * len(ids))
        delta = StepDelta(step, cached=cached, num_scheduled_tokens=dict.fromkeys(ids, 1))
    return [(prompt, text, 6 + 2 * n) for n, (prompt, text) in enumerate(zip(prompts, texts, strict=True))]


class Known(dict):
    """Continuations by request: the puppeteer's ids end with the number of their prompt."""

    def __init__(self, texts, names: int):
        super().__init__()
        for number in range(names):
            for prompt in range(NUM_PROMPTS):
                self[f"q{number}-{prompt}"] = np.asarray(texts[prompt][1], dtype=np.int32)


class Fire:
    """One run of at most `names` requests. `do` takes an operation (name, operand); `steps` counts those that computed
    something.
    """

    def __init__(self, *, compare: bool = True, names: int = 40, device: str = "cpu", **switches) -> None:
        config = RunnerConfig(**(SIZES | switches))
        self.texts = texts_of(config.model, tuple(g.split("/")[0] for g in config.kv_groups if g != "state"))
        known = Known(self.texts, names) if config.num_drafts and config.acceptance != "ngram" else None
        self.runner, self.config = make(known, device, **switches)
        self.groups = resolve_groups(config)
        self.puppets = Puppeteer(config, self.groups, self.texts)
        if config.prompt_embeds != "off":
            self.puppets.embedding = self.runner.sampler._logits._model.weights.embedding.numpy()
        self.rows = Rows(config)
        self.depth = 1 if config.token_handoff == "sync" else 2
        self.steps = 0
        self._flying: deque = deque()
        if compare:
            self.runner.checks = Spy(self.runner.checks, self)

    def do(self, name: str, operand) -> None:
        if name == "step":
            self.step(operand)
        elif name in ("collect", "mask"):
            getattr(self, name)(operand)
        else:
            getattr(self.puppets, name)(operand)

    def mask(self, number: int) -> None:
        """Allow one of the rows nothing but the tokens of its text: it says the same, another one would not."""
        batch = self.runner.state.batch
        if batch.req_ids and not self.config.num_drafts:
            req_id = batch.req_ids[number % len(batch.req_ids)]
            live = self.puppets.requests.get(req_id)
            if live is not None and req_id in batch.row_of:
                batch.allow_only(req_id, sorted(set(live.text)), VOCAB)

    def step(self, digits: list[int]) -> None:
        delta, self.turns = self.puppets.make_step(digits)
        self.order = self.rows.of_step(delta, self.turns)
        pending = self.runner.submit(delta)
        if delta.total_num_scheduled_tokens:
            self.steps += 1
            self._flying.append((delta.step, pending))
        while len(self._flying) >= self.depth:
            self.collect()

    def collect(self, _=None) -> None:
        if self._flying:
            step, pending = self._flying.popleft()
            self.puppets.took(step, pending.result().sampled)

    def compare(self, inputs, common) -> None:
        """Every array of the step, its padding included."""
        wanted = spell_out(self.config, self.groups, self.order, self.turns)
        assert list(inputs.req_ids) == wanted.req_ids, "rows"
        for name, values in wanted.host.items():
            assert getattr(inputs, name).tolist() == values, name
        for name, values in wanted.device.items():
            assert getattr(inputs, name).tolist()[: len(values)] == values, name
        total, count = inputs.num_tokens, inputs.num_reqs
        assert set(inputs.query_start_loc_gpu.tolist()[count:]) == {total}, "padding of query_start_loc"
        assert not any(inputs.seq_lens_gpu.tolist()[count:]), "padding of seq_lens"
        for group, slots, table in zip(inputs.groups, wanted.slots, wanted.tables, strict=True):
            for got, want in zip(group.slots.view(len(slots), -1).tolist(), slots, strict=True):
                assert got == want + [-1] * (len(got) - len(want)), "slots"
            _same_table(group.block_table.tolist(), table)
        padding = common.num_reqs - count
        assert common.query_start_loc_cpu.tolist() == wanted.host["query_start_loc"] + [total] * padding
        assert common.is_prefilling.tolist() == wanted.host["is_prefilling"] + [False] * padding


def _same_table(rows: list[list[int]], wanted: list[list[int | None]]) -> None:
    for row, got in enumerate(rows):
        want = wanted[row] if row < len(wanted) else []
        assert not any(got[len(want) :]), f"row {row} of the table is longer than its blocks"
        same = all(w is None or g == w for g, w in zip(got, want, strict=False))
        assert same, f"row {row} of the table is {got[: len(want)]}, not {want}"


class Spy:
    """Stands before the runner's checks and compares first: what they would have found is found here in other words."""

    def __init__(self, checks, fire: Fire) -> None:
        self._checks, self._fire = checks, fire

    def after_preprocess(self, delta, state, inputs, common) -> None:
        if inputs is not None:
            self._fire.compare(inputs, common)
        self._checks.after_preprocess(delta, state, inputs, common)

    def __getattr__(self, name: str):
        return getattr(self._checks, name)


def random_operations(seed: int, count: int):
    """Operations as a long life has them: mostly steps, and requests enough to keep the rows full."""
    dice = random.Random(seed)
    for number in range(count):
        if number % 2 == 0:
            yield "add", dice.randrange(NUM_PROMPTS)
        roll = dice.random()
        if roll < 0.06:
            yield "finish", dice.randrange(20)
        elif roll < 0.18:
            yield "preempt", dice.randrange(20)
        elif roll < 0.20:
            yield "reset", None
        elif roll < 0.30:
            yield "shuffle", dice.randrange(1000)
        elif roll < 0.36:
            yield "collect", None
        if dice.random() < 0.2:
            yield "mask", dice.randrange(20)
        digits = (0, 1, 3, 5, 6, 7, 8, 9, 9, 9, 9, IDLE)
        yield "step", [dice.choice(digits) for _ in range(dice.randrange(1, 9))]
