"""The tiny decoder in Hugging Face's clothes, 32 requests with their greedy answers by it, and the whole runner.

The answers are stored in greedy_texts.json, because importing transformers takes longer than most of these tests;
test_model_llama.py asks it again.
"""

import dataclasses
import json
import warnings
from collections import deque
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.probe.null import NullProbe
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices import make_device
from stepscope.runner.model_runner import build_runner
from stepscope.runner.models.config import NAMED
from stepscope.runner.models.weights import random_weights
from stepscope.workloads.requests import Request
from stepscope.workloads.scheduler import Scheduler
from stepscope.workloads.scheduler.config import SchedulerConfig
from stepscope.workloads.step import StepResult

NUM_REQUESTS = 32
NUM_OUTPUTS = 32
LONGEST_PROMPT = 120

BASE = {"max_num_seqs": 32, "max_num_batched_tokens": 256, "max_model_len": 192, "block_size": 4, "num_blocks": 2048}
SHARED = ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "block_size", "num_blocks", "kv_groups")


def to_hugging_face(config, weights):
    """A transformers LlamaForCausalLM with our weights."""
    transformers = pytest.importorskip("transformers")
    rope = {"rope_type": "default", "rope_theta": config.rope_theta}
    scaling = config.rope_scaling
    if scaling is not None:
        rope |= {"rope_type": "llama3"} | {name: getattr(scaling, name) for name in scaling.__slots__}
    names = (
        "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim "
        "rms_norm_eps tie_word_embeddings"
    )
    shape = {name: getattr(config, name) for name in names.split()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a library that is not under test
        made, kind = transformers.LlamaForCausalLM, transformers.LlamaConfig
        if config.windows is not None:  # the same decoder with layer types
            made, kind = transformers.MinistralForCausalLM, transformers.MinistralConfig
            shape["sliding_window"] = next(window for window in config.windows if window is not None)
            shape["layer_types"] = [
                "full_attention" if window is None else "sliding_attention" for window in config.windows
            ]
        model = made(
            kind(
                **shape, rope_parameters=rope, max_position_embeddings=8192,
                bos_token_id=None, eos_token_id=None, pad_token_id=None,
            )
        ).eval()
    model.load_state_dict(_state_dict(config, weights))
    return model


def _state_dict(config, weights):
    heads, kv_heads, width = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    state = {
        "model.embed_tokens.weight": weights.embedding,
        "model.norm.weight": weights.final_norm,
        "lm_head.weight": weights.lm_head,
    }
    for i, layer in enumerate(weights.layers):
        query, key, value = layer.qkv.split([heads * width, kv_heads * width, kv_heads * width])
        gate, up = layer.gate_up.chunk(2)
        parts = {
            "self_attn.q_proj": query, "self_attn.k_proj": key, "self_attn.v_proj": value,
            "self_attn.o_proj": layer.output, "mlp.gate_proj": gate, "mlp.up_proj": up, "mlp.down_proj": layer.down,
            "input_layernorm": layer.attention_norm, "post_attention_layernorm": layer.mlp_norm,
        }
        state |= {f"model.layers.{i}.{name}.weight": tensor for name, tensor in parts.items()}
    return state


def hf_greedy(model, prompts, num_outputs):
    """Greedy continuations by `generate`, prompts padded on the left and masked there."""
    longest = max(len(prompt) for prompt in prompts)
    tokens = torch.zeros((len(prompts), longest), dtype=torch.int64)
    mask = torch.zeros_like(tokens)
    for row, prompt in enumerate(prompts):
        tokens[row, longest - len(prompt) :] = torch.from_numpy(prompt.astype(np.int64))
        mask[row, longest - len(prompt) :] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = model.generate(
            tokens.to(model.device), attention_mask=mask.to(model.device), max_new_tokens=num_outputs,
            do_sample=False, pad_token_id=0, use_cache=True,
        )
    return [tuple(row) for row in out[:, longest:].tolist()]


@dataclass
class Run:
    """What came out of a run, and how often it met what a case is about."""

    outputs: dict = field(default_factory=dict)
    num_preempted: int = 0
    num_resumed: int = 0
    num_cut: int = 0
    num_drafts: int = 0
    num_accepted: int = 0
    num_steps: int = 0
    dispatch: list = field(default_factory=list)
    copies: list = field(default_factory=list)
    held: dict = field(default_factory=dict)


def run_requests(requests, device="cpu", resets=(), known=None, in_turns=False, **switches):
    """All requests to their end. The scheduler hears of covered requests only, as if it discarded by itself.

    `known` are continuations for synthetic drafts. `in_turns`: two steps in flight, and requests wait for their token.
    """
    config = RunnerConfig(**(BASE | switches))
    ledger = Ledger()
    with closing(make_device(device, ledger=ledger)) as opened:
        runner = build_runner(config, opened, NullProbe(), ledger, continuations=known)
        outcome = drive(requests, config, runner, resets, in_turns)
        del runner  # before the device is closed
    outcome.dispatch = [row[5:] for row in ledger.rows["dispatch"]]  # mode and reason
    outcome.copies = list(ledger.rows["copies"])
    return outcome


def drive(requests, config, runner, resets, in_turns):
    """With an asynchronous hand-off two steps are in flight: the next one is submitted before a result is asked for."""
    ahead = config.token_handoff != "sync" and not in_turns
    depth = 2 if ahead or in_turns else 1
    limits = {name: getattr(config, name) for name in SHARED} | {"block_size": config.scheduler_block_size}
    scheduler = Scheduler(
        SchedulerConfig(**limits, async_scheduling=ahead, num_speculative_tokens=config.num_drafts)
    )
    for request in requests:
        scheduler.add_request(request)
    outcome = Run(outputs={request.req_id: () for request in requests})
    in_flight = deque()
    while scheduler.has_unfinished() or scheduler.has_pending_finished():
        delta = scheduler.schedule()
        covered = scheduler.covered(delta)
        outcome.num_preempted += len(delta.preempted_req_ids)
        outcome.num_resumed += len(delta.cached.resumed_req_ids)
        outcome.num_cut += len(delta.num_scheduled_tokens) - len(covered)
        outcome.num_drafts += sum(map(len, delta.scheduled_spec_decode_tokens.values()))
        outcome.num_steps += 1
        in_flight.append((runner.submit(delta), covered))
        if len(in_flight) == depth:
            _collect(scheduler, outcome, *in_flight.popleft())
        if delta.step in resets:
            scheduler.forced_reset()
    for pending, _ in in_flight:
        pending.result()
    outcome.held = runner.checks.report().held
    return outcome


def _collect(scheduler, outcome, pending, covered):
    result = pending.result()
    sampled = result.sampled
    shown = StepResult(pending.step, {req_id: sampled[req_id] for req_id in covered}, result.drafts)
    outcome.num_accepted += sum(len(tokens) - 1 for tokens in shown.sampled.values())
    taken = scheduler.update(shown)
    for req_id, tokens in sampled.items():
        outcome.outputs[req_id] += taken.get(req_id, ()) if req_id in shown.sampled else tokens


@dataclass(frozen=True)
class Reference:
    requests: tuple
    outputs: dict


@pytest.fixture(scope="session")
def run():
    """See run_requests."""
    return run_requests


@pytest.fixture(scope="session")
def to_hf():
    return to_hugging_face


@pytest.fixture(scope="session")
def tiny_weights():
    return random_weights(NAMED["tiny"], 0, torch.device("cpu"))


TEXTS = Path(__file__).with_name("greedy_texts.json")
SHAPES = {"tiny": None, "tiny, windows of 24": (None, 24), "tiny-6, windows of 24": (None, 24, 24) * 2}
"""Names of the stored texts, each with the windows of its layers."""


def stored_reference(name):
    texts = json.loads(TEXTS.read_text())[name]
    return Reference(requests_of(NAMED["tiny"]), {req_id: tuple(tokens) for req_id, tokens in texts.items()})


@pytest.fixture(scope="session")
def reference():
    return stored_reference("tiny")


@pytest.fixture(scope="session")
def fewer():
    """`fewer(reference, count, num_outputs)`: its first requests, each with the beginning of its text.

    For the variations of a case of which one runs with all requests to their end.
    """

    def cut(reference, count, num_outputs):
        some = tuple(dataclasses.replace(one, output_len=num_outputs) for one in reference.requests[:count])
        return Reference(some, {one.req_id: reference.outputs[one.req_id][:num_outputs] for one in some})

    return cut


@pytest.fixture(scope="session")
def hybrid_reference():
    """Two and six layers of which only every second, or third, sees all positions; the others see 24."""
    return {len(windows): stored_reference(name) for name, windows in SHAPES.items() if windows}


@pytest.fixture(scope="session")
def hugging_face_texts(tiny_weights):
    """What greedy_texts.json should hold, by transformers on this machine."""

    def texts(windows):
        made = hybrid_greedy(windows, "cpu") if windows else greedy_reference(tiny_weights, "cpu")
        return {req_id: list(tokens) for req_id, tokens in made.outputs.items()}

    return {name: texts(windows) for name, windows in SHAPES.items()}


@pytest.fixture(scope="session")
def texts_file():
    return TEXTS


@pytest.fixture(scope="session")
def gpu_hybrid_reference():
    """The two layers by transformers on the GPU, in full float32."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    return hybrid_greedy((None, 24), "cuda")


def hybrid_greedy(windows, device):
    pytest.importorskip("transformers.models.ministral")
    shape = NAMED["tiny" if len(windows) == 2 else "tiny-6"]
    config = dataclasses.replace(shape, windows=windows)
    return greedy_reference(random_weights(config, 0, torch.device("cpu")), device, config)


@pytest.fixture(scope="session")
def gpu_reference(tiny_weights):
    """The same by transformers on the GPU, in full float32."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    return greedy_reference(tiny_weights, "cuda")


def requests_of(config):
    lengths = np.linspace(3, LONGEST_PROMPT, NUM_REQUESTS).astype(int)
    np.random.default_rng(20).shuffle(lengths)
    return tuple(Request(f"r{i:02d}", int(n), NUM_OUTPUTS, config.vocab_size) for i, n in enumerate(lengths))


def greedy_reference(weights, device, config=NAMED["tiny"]):
    requests = requests_of(config)
    prompts = [request.prompt_token_ids() for request in requests]
    outputs = hf_greedy(to_hugging_face(config, weights).to(device), prompts, NUM_OUTPUTS)
    return Reference(requests, {request.req_id: out for request, out in zip(requests, outputs, strict=True)})
