"""CUDA-graph capture sizes: ladders, the rule that picks a size, and what a setting means. Pure arithmetic, no torch.

Two ladders that must not be confused: `default_ladder` is ours and always ends at the configured maximum;
`vllm_ladder` is vLLM's (0.33), which ends at the largest rung below it, so that a maximum of 257 captures up to 256.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError

Sizes = tuple[int, ...]
VLLM_CEILING = 512
VLLM_CEILING_BLACKWELL = 1024
_FINE_MAX = 32  # vLLM's mode "interactivity" captures every size up to here


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """What else vLLM's ladder looks at.

    num_speculative_tokens  drafts a request; a decode has 1 + this many tokens
    user_sizes, user_max    sizes and maximum that the user configured
    performance_mode        "interactivity" captures 1..32 without gaps
    blackwell_dc            a data-centre Blackwell (sm_100 family) has the higher ceiling
    graphs                  False when the graph mode is NONE: nothing is captured
    """

    num_speculative_tokens: int = 0
    user_sizes: tuple[int, ...] | None = None
    user_max: int | None = None
    performance_mode: str | None = None
    blackwell_dc: bool = False
    graphs: bool = True


def ladder(maximum: int) -> Sizes:
    """1, 2, 4, then 8 to 248 in steps of 8, then from 256 in steps of 16, as far as `maximum` reaches."""
    rungs = [size for size in (1, 2, 4) if size <= maximum]
    rungs += range(8, min(maximum + 1, 256), 8)
    rungs += range(256, maximum + 1, 16)
    return tuple(rungs)


def default_ladder(maximum: int) -> Sizes:
    """Our ladder: the rungs up to `maximum`, and `maximum` itself, so that the highest load is captured."""
    if maximum < 1:
        raise UsageError(f"max_capture_size: {maximum} is not a size; give 1 or more, or graph_mode none")
    return tuple(sorted({*ladder(maximum), maximum}))


def vllm_ladder(max_num_seqs: int, max_num_batched_tokens: int, options: VllmOptions | None = None) -> Sizes:
    """What vLLM 0.33 captures for these limits; empty without graphs.

    Raises UsageError where vLLM refuses: an empty list of sizes, or sizes and a maximum that contradict each other.
    """
    options = options or VllmOptions()
    if not options.graphs:
        return ()
    if options.user_sizes is not None:
        return _user_sizes(options.user_sizes, options.user_max, max_num_batched_tokens)
    maximum, decode_sizes = _vllm_maximum(max_num_seqs, options)
    maximum = min(maximum, max_num_batched_tokens)
    if maximum < 1:
        raise UsageError(f"max_capture_size: {maximum} captures nothing; give 1 or more, or graph_mode none")
    sizes = set(ladder(maximum))
    if options.performance_mode == "interactivity":
        sizes.update(range(1, min(maximum, _FINE_MAX) + 1))
    if max_num_batched_tokens <= maximum:
        sizes.add(max_num_batched_tokens)
    sizes.update(size for size in decode_sizes if size <= max_num_batched_tokens)
    return tuple(sorted(sizes))


def _user_sizes(user_sizes: Sequence[int], user_max: int | None, max_num_batched_tokens: int) -> Sizes:
    """The user's list without repeats and without what the token budget can never reach."""
    if not user_sizes:
        raise UsageError("capture_sizes: the list is empty; name at least one size, or graph_mode none")
    sizes = tuple(sorted({size for size in user_sizes if size <= max_num_batched_tokens}))
    top = sizes[-1] if sizes else 0
    if user_max is not None and user_max != top:
        raise UsageError(f"max_capture_size: {user_max} contradicts capture_sizes, whose largest is {top}; drop one")
    return sizes


def _vllm_maximum(max_num_seqs: int, options: VllmOptions) -> tuple[int, Sizes]:
    """(largest token count to capture, token counts of uniform decodes to add).

    Decode sizes are request counts on the same ladder, and max_num_seqs, times the tokens of one decode.
    """
    if options.user_max is not None:
        return options.user_max, ()
    ceiling = VLLM_CEILING_BLACKWELL if options.blackwell_dc else VLLM_CEILING
    decode_tokens = 1 + options.num_speculative_tokens
    maximum = min(2 * max_num_seqs * decode_tokens, ceiling)
    most_reqs = min(max_num_seqs, ceiling)
    counts = {*ladder(most_reqs), most_reqs}
    return maximum, tuple(n * decode_tokens for n in counts if n * decode_tokens <= maximum)


def padded_size_table(sizes: Sequence[int]) -> tuple[int, ...]:
    """Index n, 0 to the largest size -> the captured size that n tokens run at: itself or the next larger; 0 -> 0."""
    ordered = sorted(set(sizes))
    if not ordered:
        return (0,)
    return (0, *(ordered[bisect_left(ordered, n)] for n in range(1, ordered[-1] + 1)))


def round_to_decodes(sizes: Sequence[int], decode_tokens: int, max_num_batched_tokens: int) -> Sizes:
    """`sizes` as vLLM's V1 runner takes them with drafts: rounded up to whole decodes of `decode_tokens`, without
    repeats; a graph of uniform decodes has no other sizes. What the token buffers cannot hold is left out.
    """
    rounded = {-(-size // decode_tokens) * decode_tokens for size in sizes}
    return tuple(sorted(size for size in rounded if size <= max_num_batched_tokens))


def resolve_sizes(
    setting: str | Sequence[int], *, max_num_seqs: int, max_num_batched_tokens: int,
    max_capture_size: int | None = None, num_speculative_tokens: int = 0,
) -> Sizes:  # fmt: skip
    """The ascending capture sizes that a setting means: "default", "vllm", "exact", or the sizes themselves.

    Without `max_capture_size` "default" and "exact" reach up to what vLLM would: twice max_num_seqs decodes with all
    their drafts, at most 512 tokens.
    Raises UsageError for an unknown name, a size below 1, and a size that the token buffers cannot hold; and for
    "optimal", which experiments turn into a list before a runner sees it.
    """
    if max_capture_size is not None:
        _check_sizes((max_capture_size,), max_num_batched_tokens, "max_capture_size")
    if not isinstance(setting, str):
        _check_sizes(setting, max_num_batched_tokens, "capture_sizes")
        return _user_sizes(setting, max_capture_size, max_num_batched_tokens)
    if setting == "vllm":
        options = VllmOptions(num_speculative_tokens=num_speculative_tokens, user_max=max_capture_size)
        return vllm_ladder(max_num_seqs, max_num_batched_tokens, options)
    most_decodes = 2 * max_num_seqs * (1 + num_speculative_tokens)
    maximum = max_capture_size or min(most_decodes, VLLM_CEILING, max_num_batched_tokens)
    if setting == "default":
        return default_ladder(maximum)
    if setting == "exact":
        return tuple(range(1, maximum + 1))
    if setting == "optimal":
        raise UsageError("capture_sizes: optimal is found from a workload, which only a spec has; give the list itself")
    raise UsageError(f"capture_sizes: {setting!r} is unknown; use default, vllm, exact, optimal or a list of sizes")


def _check_sizes(sizes: Sequence[int], max_num_batched_tokens: int, field: str) -> None:
    for size in sizes:
        if size < 1:
            raise UsageError(f"{field}: {size} is not a size; sizes are 1 or more")
        if size > max_num_batched_tokens:
            raise UsageError(
                f"{field}: {size} is above the token buffers (max_num_batched_tokens = {max_num_batched_tokens}); "
                "raise those or capture less"
            )
