"""The sampler on a device, with hidden states that decide the logits directly: the LM head is the identity."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from stepscope.errors import UsageError
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.probe.null import NULL_SCOPE, NullProbe
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices import make_device
from stepscope.runner.handoff.outputs import OutputRing
from stepscope.runner.handoff.pending import SyncOutputs
from stepscope.runner.inputs.step_inputs import StepInputs
from stepscope.runner.models.config import NAMED
from stepscope.runner.models.llama import LlamaModel
from stepscope.runner.models.weights import DecoderWeights
from stepscope.runner.sampling.sampler import Sampler
from stepscope.runner.speculation.drafter import NoDrafter
from stepscope.runner.state.sampling_metadata import SamplingMetadata
from stepscope.runner.state.seeded_stream import SeededStream

VOCAB = 8
PLAIN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
CONFIG = RunnerConfig(max_num_seqs=8, max_num_batched_tokens=64)


class RangeNames(NullProbe):
    def __init__(self):
        super().__init__()
        self.names = []

    def timed(self, name, function):
        def call(*values):
            self.names.append(name)
            return function(*values)

        return call


class NoState:
    def commit_tokens(self, result):
        pass


class Bench:
    def __init__(self, config=CONFIG):
        self.ledger, self.probe = Ledger(), RangeNames()
        device = make_device("cpu", ledger=self.ledger)
        identity = torch.eye(VOCAB)
        shape = replace(NAMED["tiny"], vocab_size=VOCAB, hidden_size=VOCAB)
        model = LlamaModel(shape, DecoderWeights(identity, (), torch.ones(VOCAB), identity))
        self.outputs = SyncOutputs(device, NullProbe(), NoState(), lambda result: None, NoDrafter())
        self.sampler = Sampler(device, model, self.probe, config, OutputRing(device, 8, 1, pinned=True))

    def sample(self, hidden, inputs, sampling):
        slot = self.sampler.sample(hidden, inputs, sampling)
        return dict(self.outputs.send(slot, inputs, NULL_SCOPE).result().sampled)


def step(queries, discard=None, req_ids=None, seq_lens=None):
    """StepInputs with only what a sampler reads."""
    rows = len(queries)
    ends = np.cumsum(queries)
    nothing = np.zeros(0, dtype=np.int32)
    tensor = torch.zeros(0)
    return StepInputs(
        step=7, req_ids=tuple(req_ids or [f"r{i}" for i in range(rows)]), num_reqs=rows, num_tokens=int(ends[-1]),
        num_scheduled=np.array(queries, np.int32), num_computed=nothing,
        query_start_loc=nothing, req_indices=nothing, query_pos=nothing, positions=nothing,
        seq_lens=np.array(seq_lens or queries, np.int32), logits_indices=ends - 1,
        discard=np.array(discard or [False] * rows), is_prefilling=nothing, input_ids=tensor, positions_gpu=tensor,
        query_start_loc_gpu=tensor, seq_lens_gpu=tensor, groups=(),
        logits_indices_gpu=torch.from_numpy(np.pad(np.maximum(ends - 1, 0), (0, 8 - rows))),
    )  # fmt: skip


def options(temperature, top_k=None, top_p=None, generators=None, forbidden=None):
    temperature = np.array(temperature, np.float32)
    rows = len(temperature)
    return SamplingMetadata(
        rows, temperature, np.array(top_k or [0] * rows, np.int32), np.array(top_p or [1.0] * rows, np.float32),
        generators or {}, forbidden, all_greedy=bool((temperature == 0).all()),
    )  # fmt: skip


def one_hot(*tokens):
    return torch.nn.functional.one_hot(torch.tensor(tokens), VOCAB).float()


@pytest.mark.parametrize("logits", ["last_position", "all_positions"])
def test_each_request_gets_the_token_of_its_last_position(logits):
    # GIVEN chunks of 2, 5 and 3 tokens and three tokens of padding; the middle prompt goes on
    bench = Bench(replace(CONFIG, logits=logits))
    hidden = one_hot(0, 1, 0, 0, 0, 0, 2, 0, 0, 3, 7, 7, 7)
    # WHEN they are sampled greedily
    sampled = bench.sample(hidden, step([2, 5, 3], [False, True, False]), options([0, 0, 0]))
    # THEN positions 1, 6 and 9 decide and the unfinished prompt shows nothing
    assert sampled == {"r0": (1,), "r2": (3,)}
    assert bench.probe.names == ["lm_head", "sample"]


def test_tokens_come_back_in_one_copy_that_the_host_waits_for():
    bench = Bench()
    bench.sample(one_hot(1, 2, 3), step([1, 1, 1]), options([0, 0, 0]))
    (copy,) = bench.ledger.rows["copies"]
    assert copy[1:3] == ("d2h", 12)
    assert copy[6] == "sampled_tokens"
    assert [wait[2] for wait in bench.ledger.rows["waits"]] == ["tokens"]


def test_forbidden_tokens_are_never_sampled():
    forbidden = np.zeros((2, VOCAB), dtype=bool)
    forbidden[0, 3] = forbidden[1, 3] = True
    sampled = Bench().sample(one_hot(3, 3) * 50, step([1, 1]), options([0, 0.5], forbidden=forbidden))
    assert 3 not in {token for (token,) in sampled.values()}


def run_seeded(chunks, temperature=1.0, steps=20):
    """Tokens of a seeded request whose prompt of four tokens comes in `chunks`, beside a greedy neighbour."""
    bench, generator = Bench(), SeededStream(11)
    sampling = options([temperature, 0], generators={0: generator})
    tokens = []
    for number in range(len(chunks) + steps):
        first = chunks[number] if number < len(chunks) else 1
        inputs = step([first, 1], [number < len(chunks) - 1, False])
        tokens += bench.sample(torch.zeros(first + 1, VOCAB), inputs, sampling).get("r0", ())
    return tokens


def test_a_seeded_request_does_not_notice_how_its_prompt_was_cut():
    whole = run_seeded([4])
    assert len(set(whole)) > 3
    assert run_seeded([2, 2]) == whole
    assert run_seeded([1, 1, 1, 1]) == whole


def test_without_a_seed_the_request_and_its_length_decide():
    # GIVEN flat scores and rows without generators
    hidden = torch.zeros(8, VOCAB)
    random = options([1.0] * 8)
    first = step([1] * 8, req_ids="abcdefgh", seq_lens=[9] * 8)
    sampled = Bench().sample(hidden, first, random)
    # THEN another run, in another row order, gives the same tokens
    again = Bench().sample(hidden, step([1] * 8, req_ids="hgfedcba", seq_lens=[9] * 8), random)
    assert again == sampled
    assert len(set(sampled.values())) > 3
    # AND another length, or another seed of the runner, gives others
    assert Bench().sample(hidden, step([1] * 8, req_ids="abcdefgh", seq_lens=[10] * 8), random) != sampled
    assert Bench(replace(CONFIG, model_seed=1)).sample(hidden, first, random) != sampled


@pytest.mark.parametrize("neighbour", [{"top_k": 3}, {"top_p": 0.5}, {"top_k": 1, "top_p": 0.9}, {"temperature": 0}])
def test_a_rows_token_does_not_depend_on_its_neighbours_options(neighbour):
    # GIVEN scores whose falling order is not the vocabulary's, drawn many times beside a row without limits
    hidden = torch.linspace(0, 1, VOCAB).repeat(2, 1)

    def drawn(**options_of_b):
        columns = {name: [plain, options_of_b.get(name, plain)] for name, plain in PLAIN.items()}
        steps = [step([1, 1], req_ids="ab", seq_lens=[n, n]) for n in range(1, 40)]
        return [Bench().sample(hidden, inputs, options(**columns))["a"] for inputs in steps]

    # THEN a neighbour with limits, or a greedy one, changes none of them
    assert len(set(drawn())) > 4
    assert drawn(**neighbour) == drawn()


def test_greedy_and_random_rows_share_a_batch():
    hidden = torch.cat([one_hot(5), torch.zeros(1, VOCAB), one_hot(6)])
    drawn = [
        Bench().sample(hidden, step([1, 1, 1], seq_lens=[n, n, n]), options([0, 1, 0], top_k=[0, 2, 0]))
        for n in range(1, 30)
    ]
    assert {(sampled["r0"], sampled["r2"]) for sampled in drawn} == {((5,), (6,))}
    assert {sampled["r1"] for sampled in drawn} == {(0,), (1,)}


def test_an_unknown_switch_is_refused():
    with pytest.raises(UsageError, match="logits: unknown value 'first'"):
        Bench(replace(CONFIG, logits="first"))
