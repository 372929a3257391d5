"""Prompts that bring embeddings: both designs say what the model says, whatever becomes of rows, chunks and blocks.

In the first half the embeddings are those of the right token ids, and the ids in their places are wrong: the text is
Hugging Face's if and only if every embedding is where it belongs. In the second half they are the model's of no id, and
the text is that of the whole sequence computed at once.
"""

import dataclasses

import numpy as np
import pytest
import torch
from stepscope.errors import UsageError
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.probe.null import NullProbe
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices import make_device
from stepscope.runner.inputs import prompt_embeds
from stepscope.runner.inputs.prompt_embeds import DenseRoad, PromptEmbeddings
from stepscope.runner.model_runner import build_runner
from stepscope.runner.models.config import NAMED
from stepscope.runner.models.llama import LlamaModel
from stepscope.runner.state.embed_table import EmbedTable
from stepscope.workloads.embeds import with_embeds
from stepscope.workloads.requests import Request
from stepscope.workloads.step import CachedRequests, NewRequest, PromptEmbeds, StepDelta

from .test_model_llama import HandDriver

DESIGNS = ("sparse", "dense_table")
TIGHT = {"max_num_batched_tokens": 48, "max_num_seqs": 16, "num_blocks": 170, "check": "sample"}
SMALL = {"max_num_seqs": 2, "max_num_batched_tokens": 8, "max_model_len": 16, "block_size": 4, "num_blocks": 9}
HIDDEN = NAMED["tiny"].hidden_size


class Disguised(Request):
    """Where it brings embeddings its token ids are those of another text."""

    def prompt_token_ids(self):
        ids = super().prompt_token_ids()
        places = self.prompt_embeds.positions
        ids[places] = (ids[places] + 1) % self.vocab_size
        return ids


@pytest.fixture(scope="module")
def disguised(reference, fewer, tiny_weights):
    """(requests, their texts): two of three bring embeddings of what they should say, in a run or here and there."""
    some, rng, requests = fewer(reference, 18, 12), np.random.default_rng(3), []
    for number, request in enumerate(some.requests):
        if number % 3 < 2:
            count = -(-request.prompt_len // 2)
            first = int(rng.integers(0, request.prompt_len - count + 1))
            places = np.arange(first, first + count)
            if number % 3:
                places = np.flatnonzero(rng.random(request.prompt_len) < 0.4)
            values = tiny_weights.embedding[torch.from_numpy(request.prompt_token_ids()[places].astype(np.int64))]
            fields = {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
            request = Disguised(**fields | {"prompt_embeds": PromptEmbeds(places, values.numpy())})
        requests.append(request)
    return tuple(requests), some.outputs


ARRANGEMENTS = {
    "condensed": {},
    "swapped": {"reorder": "decode_first", "staging": "pinned_single", "device": "sim"},
    "slots": {"batch_state": "stable_slots", "block_table_commit": "staged"},
    "rebuilt": {"batch_state": "rebuild", "token_gather": "cat", "staging": "fresh_pinned", "device": "sim"},
    "ahead": {"token_handoff": "async_auto", "copy_stream": "dedicated", "device_buffers": "double"},
    "graphs, v1": {"graph_mode": "full_and_piecewise", "capture_sizes": (7, 23, 48), "dispatch_rules": "v1"},
    "graphs, v2": {"graph_mode": "full", "capture_sizes": (7, 23, 48)},
    "ranks": {"dcp": 2, "num_blocks": 86},
    "drafts, explicit masks": {"speculative": 3, "attention_mask": "explicit", "commit_order": "last"},
    "drafts corrected on the device": {
        "speculative": 3, "acceptance": "synthetic:0.6", "token_handoff": "async_auto", "correction": "device",
    },
}  # fmt: skip


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("switches", ARRANGEMENTS.values(), ids=ARRANGEMENTS)
def test_embeddings_of_the_right_ids_give_the_right_text(run, disguised, design, switches):
    # GIVEN prompts that are cut, and requests that lose their blocks for want of others and at two moments together
    requests, texts = disguised
    known = {req_id: np.asarray(text, dtype=np.int32) for req_id, text in texts.items()}
    outcome = run(requests, prompt_embeds=design, resets=(5, 20), known=known, **TIGHT | switches)
    assert outcome.num_cut > 10
    assert outcome.num_resumed > 3
    assert outcome.outputs == texts
    # AND steps without embeddings go their ordinary way
    reasons = {reason for _, reason in outcome.dispatch}
    assert ("none", "prompt_embeds") in set(outcome.dispatch)
    assert reasons - {"prompt_embeds"} == ({"hit"} if "graph_mode" in switches else {"disabled"})


def test_without_embeddings_the_disguise_is_another_text(run, disguised):
    requests, texts = disguised
    outputs = run(stripped(requests)).outputs
    assert {req_id for req_id in texts if outputs[req_id] != texts[req_id]} == {
        request.req_id for request in requests if request.prompt_embeds is not None
    }


def stripped(requests):
    """Their wrong ids, and nothing that makes up for them."""

    class Plain(Request):
        def prompt_token_ids(self):
            return wrong[self.req_id]

    wrong = {request.req_id: request.prompt_token_ids() for request in requests}
    names = [field.name for field in dataclasses.fields(Request)]
    return [Plain(**{name: getattr(one, name) for name in names} | {"prompt_embeds": None}) for one in requests]


@pytest.fixture(scope="module")
def foreign(reference, fewer, tiny_weights):
    """(requests with embeddings of no id, their greedy texts by the whole sequence computed anew for each token)"""
    some = fewer(reference, 9, 6)
    requests = with_embeds(some.requests, 0.7, HIDDEN, seed=5)
    return requests, {request.req_id: whole_sequence(request, tiny_weights) for request in requests}


def whole_sequence(request, weights):
    text, embeds = [], request.prompt_embeds
    for _ in range(request.output_len):
        ids = torch.from_numpy(np.concatenate([request.prompt_token_ids(), text]).astype(np.int64))
        rows = weights.embedding[ids]
        if embeds is not None:
            rows[torch.from_numpy(embeds.positions)] = torch.from_numpy(embeds.values)
        model = LlamaModel(NAMED["tiny"], dataclasses.replace(weights, embedding=rows))
        hidden = HandDriver(model, [range(len(ids))], len(ids)).forward([len(ids)])
        text.append(int(model.logits(hidden[-1:]).argmax()))
    return tuple(text)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("switches", [{}, {"batch_state": "stable_slots", "token_handoff": "async_auto"}])
def test_embeddings_of_no_id_give_the_text_of_the_whole_sequence(run, foreign, design, switches):
    requests, texts = foreign
    assert sum(request.prompt_embeds is not None for request in requests) == 7
    outcome = run(requests, prompt_embeds=design, resets=(4,), **TIGHT | switches)
    assert outcome.num_resumed > 3
    assert outcome.outputs == texts


def test_a_step_copies_what_its_tokens_have_or_a_row_for_each_of_them():
    # GIVEN a prompt of six with embeddings for its positions 1 and 4, in two chunks, and a step of one token behind it
    told = {}
    for design in DESIGNS:
        ledger = Ledger()
        config = RunnerConfig(**SMALL, prompt_embeds=design, verify_copies=True)
        device = make_device("sim", ledger=ledger)
        runner = build_runner(config, device, NullProbe(), ledger)
        for step, count in enumerate([4, 2]):
            runner.execute(delta_of(step, count, [1, 4]))
        runner.settle_verdicts()
        told[design] = [
            (row[1], row[3], row[-1]) for row in ledger.rows["buffers"] if row[1].startswith(("embed", "prompt"))
        ]
    # THEN the one copies a row for each of them, and the other one for each token
    row = HIDDEN * 4
    assert sorted(told["sparse"]) == sorted([("embed_rows", row, "none"), ("embed_places", 8, "none")] * 2)
    assert sorted(told["dense_table"]) == sorted(
        (name, count * size, "none") for count in (4, 2) for name, size in (("prompt_embeds", row), ("embeds_given", 1))
    )


def delta_of(step, count, places, hidden=HIDDEN):
    embeds = PromptEmbeds(np.array(places), np.ones((len(places), hidden), dtype=np.float32))
    if step:
        return StepDelta(step, cached=CachedRequests(("a",), (None,), (4,), (0,)), num_scheduled_tokens={"a": count})
    new = NewRequest("a", np.arange(6, dtype=np.int32), ((1, 2),), prompt_embeds=embeds)
    return StepDelta(step, (new,), num_scheduled_tokens={"a": count})


@pytest.mark.parametrize(
    ("design", "places", "hidden", "message"),
    [
        ("off", [1], HIDDEN, "step 0: request 'a' brings embeddings, and prompt_embeds is off; use sparse, or dense_"),
        ("sparse", [1], 3, f"step 0: request 'a' brings embeddings of 3 numbers; the model's have {HIDDEN}"),
        ("dense_table", [2, 6], HIDDEN, "request 'a' brings an embedding for position 6; its prompt has 6 tokens"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(design, places, hidden, message):
    ledger = Ledger()
    config = RunnerConfig(**SMALL, prompt_embeds=design)
    runner = build_runner(config, make_device("cpu", ledger=ledger), NullProbe(), ledger)
    with pytest.raises(UsageError, match=message):
        runner.execute(delta_of(0, 6, places, hidden))


@pytest.mark.parametrize("design", DESIGNS)
def test_an_id_that_comes_back_without_embeddings_has_none(design):
    ledger = Ledger()
    config = RunnerConfig(**SMALL, prompt_embeds=design)
    runner = build_runner(config, make_device("cpu", ledger=ledger), NullProbe(), ledger)
    (given,) = delta_of(0, 6, [1, 3]).new_requests
    plain = dataclasses.replace(given, prompt_embeds=None)
    # WHEN three requests of one id follow each other, and only the second brings embeddings
    said = [
        runner.execute(StepDelta(step, (new,), num_scheduled_tokens={"a": 6}, finished_req_ids=frozenset("a"))).sampled
        for step, new in enumerate([plain, given, plain])
    ]
    # THEN the third says what the first one said
    assert said[0] == said[2] != said[1]
    assert [row[6] for row in ledger.rows["dispatch"]] == ["disabled", "prompt_embeds", "disabled"]


def of_the_neighbour(patch):
    """Each embedding takes the place of the one behind it."""
    parts = prompt_embeds._parts
    patch.setattr(prompt_embeds, "_parts", lambda *operands: (
        (dataclasses.replace(embeds, values=np.roll(embeds.values, 1, axis=0)), *rest)
        for embeds, *rest in parts(*operands)
    ))  # fmt: skip


def lost_with_the_row(patch):
    """Who is preempted comes back without embeddings."""
    placed = PromptEmbeddings.placed

    def once(self, req_id, batch):
        placed(self, req_id, batch)
        seen = self.__dict__.setdefault("seen", set())
        if req_id in seen:
            self.of.pop(req_id, None)
        seen.add(req_id)

    patch.setattr(PromptEmbeddings, "placed", once)


def left_behind(patch):
    """A row that moves leaves its embeddings where they were."""
    patch.setattr(EmbedTable, "move", lambda self, source, target: None)


def by_place(patch):
    """The table is gathered by places of the step, where slots were meant."""
    stage = DenseRoad.stage

    def wrong(self, batch, inputs, carriers):
        plain = type("Plain", (), {"columns_of": lambda self, places: places})()
        return stage(self, plain, inputs, carriers)

    patch.setattr(DenseRoad, "stage", wrong)


def stale_rows(patch):
    """A row that is given up keeps what its owner brought."""
    patch.setattr(EmbedTable, "clear", lambda self, row: None)


MUTANTS = [
    (of_the_neighbour, {"prompt_embeds": "sparse"}),
    (lost_with_the_row, {"prompt_embeds": "sparse"}),
    (left_behind, {"prompt_embeds": "dense_table"}),
    (by_place, {"prompt_embeds": "dense_table", "batch_state": "stable_slots"}),
    (stale_rows, {"prompt_embeds": "dense_table"}),
]


@pytest.mark.parametrize(("plant", "switches"), MUTANTS)
def test_planted_faults_change_tokens(run, disguised, monkeypatch, plant, switches):
    plant(monkeypatch)
    requests, texts = disguised
    assert run(requests, resets=(5, 20), **TIGHT | switches | {"check": "off"}).outputs != texts
