"""Names that engines give to their steps, and what such a name tells about the step.

vLLM       execute_context_1(888)_generation_0(0), execute_32_context_0(sq0sk0..)_generation_32(sq32sk55086..)
TensorRT   [Executor] _forward_step 12: 0 ctx reqs, 32 gen reqs (of TensorRT-LLM)
SGLang     step[DECODE bs=32], step[EXTEND bs=2 toks=512], step[MIXED ...]
PyTorch    ProfilerStep#6
stepscope  step, in the domain stepscope; "stepscope: step" where the profiler knows no domains
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_VLLM = re.compile(r"execute(?:_\d+)?_context_(\d+)\(([^)]*)\)_generation_(\d+)\(([^)]*)\)")
_SGLANG = re.compile(r"step\[(DECODE|EXTEND|MIXED|IDLE|PREFILL|TARGET_VERIFY|DRAFT_EXTEND)\b([^\]]*)\]")
_TRTLLM = re.compile(
    r"\[Executor\] _forward_step(?: \d+)?: (\d{1,9}) ctx reqs,(?: \d+ ctx tokens,)? (\d{1,9}) gen reqs"
)
_PROFILER_STEP = re.compile(r"ProfilerStep#?\d+")
_SQ, _SK = re.compile(r"^sq(\d+)"), re.compile(r"^sq\d+sk(\d+)")
_PAIR = re.compile(r"(bs|toks|tokens|num_tokens)=(\d+)")


@dataclass(frozen=True, slots=True)
class Marker:
    """A step's name, read. `covers` is false where the step's sampling comes after the range: vLLM marks only the
    first half. None is what the name does not tell."""

    family: str
    covers: bool = True
    num_reqs: int | None = None
    num_tokens: int | None = None
    num_prefill: int | None = None
    num_decode: int | None = None
    kv_tokens_sum: int | None = None


OWN_PREFIX = "stepscope: "
"""Before the names of our probe's ranges in traces of torch.profiler, which has no domains."""

FAMILIES = ("stepscope", "sglang", "vllm", "trtllm", "mapped", "pytorch")
"""The first family that a capture has marks its steps. SGLang runs with names of vLLM's form inside its own exist."""


def marker_of(name: str, domain: str | None = None) -> Marker | None:
    """The step that a range marks; None for other ranges."""
    if domain == "stepscope":
        return Marker("stepscope") if name == "step" else None
    if name == f"{OWN_PREFIX}step":
        return Marker("stepscope")
    if match := _VLLM.fullmatch(name):
        return _vllm(match)
    if match := _SGLANG.fullmatch(name):
        return _sglang(match)
    if match := _TRTLLM.match(name):
        context, generation = int(match[1]), int(match[2])
        return Marker(
            "trtllm", covers=False, num_reqs=context + generation, num_prefill=context, num_decode=generation
        )
    return Marker("pytorch") if _PROFILER_STEP.fullmatch(name) else None


def _vllm(match: re.Match[str]) -> Marker:
    context, generation = int(match[1]), int(match[3])
    tokens = [_number(match[place], _SQ) for place in (2, 4)]
    cached = [_number(match[place], _SK, plain=False) for place in (2, 4)]
    return Marker(
        "vllm", covers=False, num_reqs=context + generation, num_prefill=context, num_decode=generation,
        num_tokens=_sum(tokens), kv_tokens_sum=_sum(cached),
    )


def _sglang(match: re.Match[str]) -> Marker:
    told = {key: int(value) for key, value in _PAIR.findall(match[2])}
    reqs, decode = told.get("bs"), match[1] == "DECODE"
    tokens = next((told[key] for key in ("toks", "tokens", "num_tokens") if key in told), reqs if decode else None)
    whole = match[1] in ("DECODE", "EXTEND", "PREFILL")
    return Marker(
        "sglang", num_reqs=reqs, num_tokens=tokens, num_prefill=(0 if decode else reqs) if whole else None,
        num_decode=(reqs if decode else 0) if whole else None,
    )


def _number(text: str, pattern: re.Pattern[str], *, plain: bool = True) -> int | None:
    """`sq32sk55086..` by the pattern; the plain forms `64` and `888_788544` begin with the count of tokens."""
    match = pattern.match(text) or (re.match(r"(\d+)(?:_\d+)?$", text) if plain else None)
    return int(match[1]) if match and len(match[1]) < 16 else None


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
