"""vLLM's two rule sets: which captured graphs may run a step, best first. Pure, facts from its 0.33."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from ..errors import UsageError
from ..instrumentation.capture_sizes import Sizes, padded_size_table
from .config import DispatchRulesSwitch, GraphModeSwitch
from .devices.base import GraphKey, GraphMode
from .dispatch_shape import BatchShape, is_uniform_shape, uniform_token_count


@dataclass(frozen=True, slots=True)
class ModePair:
    """The graph mode of a uniform decode, and that of any other batch."""

    decode: GraphMode
    mixed: GraphMode

    @property
    def separate(self) -> bool:
        """Full graphs meet decodes alone, and are captured for them."""
        return self.decode == "full" and self.mixed != "full"


MODE_PAIRS: dict[GraphModeSwitch, ModePair] = {
    "none": ModePair("none", "none"),
    "piecewise": ModePair("piecewise", "piecewise"),
    "full": ModePair("full", "full"),
    "full_decode_only": ModePair("full", "none"),
    "full_and_piecewise": ModePair("full", "piecewise"),
}


def mode_pair(switch: GraphModeSwitch) -> ModePair:
    """The pair behind the switch `graph_mode`."""
    try:
        return MODE_PAIRS[switch]
    except KeyError:
        known = ", ".join(MODE_PAIRS)
        raise UsageError(f"graph_mode: unknown value {switch!r}; known are {known}") from None


GraphSupport = Literal["always", "uniform_batch", "never"]
"""What full graphs of an attention backend may hold: any batch, uniform decodes, nothing."""


def supported_mode(switch: GraphModeSwitch, *, piecewise: bool, support: GraphSupport) -> GraphModeSwitch:
    """The mode that is left of `switch` where the model cannot be cut into pieces, or the backend's attention cannot be
    captured (vLLM's fall-back): full graphs shrink to those of decodes, then to pieces, then to none.
    """
    modes = mode_pair(switch)
    if modes.mixed == "full" and support == "uniform_batch":
        return "full_decode_only"
    if modes.decode == "full" and support == "never":
        return "piecewise" if piecewise and switch != "full_decode_only" else "none"
    if modes.mixed == "piecewise" and not piecewise:
        return "full_decode_only" if modes.decode == "full" else "none"
    return switch


@dataclass(frozen=True, slots=True)
class GraphLimits:
    """What graphs are captured for.

    sizes             captured token counts, ascending; empty when graphs are off
    rows              most requests of a full graph (V1, V2: max_num_seqs; ours holds the padded batch, `row_capacity`)
    decode_query_len  tokens of a decode: 1, and the drafts that it verifies
    tokens            capacity of the flat buffers, which no graph exceeds; None sets no limit
    """

    modes: ModePair
    sizes: Sizes
    rows: int
    decode_query_len: int = 1
    tokens: int | None = None


class DispatchRules(Protocol):
    """One rule set over fixed limits. `early`: the decision needs nothing that the preparation of inputs makes."""

    early: bool
    largest: int

    def keys(self) -> tuple[GraphKey, ...]:
        """Every graph that a step may ask for, largest first, so that captures can share memory."""
        ...

    def uniform(self, shape: BatchShape) -> bool:
        """Whether the step is a uniform decode."""
        ...

    def candidates(self, shape: BatchShape) -> Iterator[GraphKey]:
        """Graphs that may run the step, best first; who has fewer rows than the step is passed over."""
        ...


class RulesV1:
    """One size for all: the next captured one. A step that is uniform by its shape may run in a graph for decodes, with
    FULL before PIECEWISE before NONE. Sizes are multiples of a decode's tokens (`round_to_decodes`).
    """

    early = False

    def __init__(self, limits: GraphLimits) -> None:
        self._limits = limits
        self._padded = padded_size_table(limits.sizes)
        self.largest = limits.sizes[-1] if limits.sizes else 0
        self._full = {size for size in limits.sizes if self._has_full(size)}

    def keys(self) -> tuple[GraphKey, ...]:
        """See DispatchRules."""
        limits, keys = self._limits, dict[GraphKey, None]()
        for size in reversed(limits.sizes):
            if size in self._full:
                keys[self._full_key(size)] = None
            if limits.modes.mixed == "piecewise":
                keys[GraphKey("piecewise", size)] = None
        return tuple(keys)

    def uniform(self, shape: BatchShape) -> bool:
        """By shape: a chunk of a prompt may look like a decode, and then is taken for one."""
        return is_uniform_shape(shape, self._limits.decode_query_len)

    def candidates(self, shape: BatchShape) -> Iterator[GraphKey]:
        """See DispatchRules."""
        if not 0 < shape.num_tokens <= self.largest:
            return
        size, modes = self._padded[shape.num_tokens], self._limits.modes
        if size in self._full and (not modes.separate or self.uniform(shape)):
            yield self._full_key(size)
        if modes.mixed == "piecewise":
            yield GraphKey("piecewise", size)

    def _has_full(self, size: int) -> bool:
        modes, query_len = self._limits.modes, self._limits.decode_query_len
        if modes.decode != "full":
            return False
        return not modes.separate or query_len <= size <= query_len * self._limits.rows

    def _full_key(self, size: int) -> GraphKey:
        rows = size // self._limits.decode_query_len if self._limits.modes.separate else min(size, self._limits.rows)
        return GraphKey("full", size, rows)


class RulesV2:
    """Each token count has its candidates: a graph for decodes, staged at the size rounded up to whole decodes, and one
    for any batch at the raw size. Uniform is decided by the requests' state.
    """

    early = True

    def __init__(self, limits: GraphLimits) -> None:
        self._limits = limits
        query_len = limits.decode_query_len
        self._decode: Sizes = ()
        if limits.modes.separate:
            staged = {-(-size // query_len) * query_len for size in limits.sizes}
            most = min(query_len * limits.rows, limits.tokens or query_len * limits.rows)
            self._decode = tuple(sorted(size for size in staged if size <= most))
        self._mixed: Sizes = limits.sizes if limits.modes.mixed != "none" else ()
        self._next_decode, self._next_mixed = padded_size_table(self._decode), padded_size_table(self._mixed)
        self.largest = max((*self._decode, *self._mixed), default=0)

    def keys(self) -> tuple[GraphKey, ...]:
        """See DispatchRules."""
        keys = {self._decode_key(size) for size in self._decode} | {self._mixed_key(size) for size in self._mixed}
        return tuple(sorted(keys, key=lambda key: (-key.tokens, key.mode)))

    def uniform(self, shape: BatchShape) -> bool:
        """By state: all requests decode, each with all of a decode's tokens."""
        return uniform_token_count(shape) == self._limits.decode_query_len

    def candidates(self, shape: BatchShape) -> Iterator[GraphKey]:
        """See DispatchRules."""
        count = shape.num_tokens
        if 0 < count < len(self._next_decode) and self.uniform(shape):
            yield self._decode_key(self._next_decode[count])
        if 0 < count < len(self._next_mixed):
            yield self._mixed_key(self._next_mixed[count])

    def _decode_key(self, size: int) -> GraphKey:
        return GraphKey("full", size, size // self._limits.decode_query_len)

    def _mixed_key(self, size: int) -> GraphKey:
        if self._limits.modes.mixed == "full":
            return GraphKey("full", size, min(size, self._limits.rows))
        return GraphKey("piecewise", size)


RULE_SETS: dict[DispatchRulesSwitch, type[RulesV1] | type[RulesV2]] = {"v1": RulesV1, "v2": RulesV2}


def make_rules(switch: DispatchRulesSwitch, limits: GraphLimits) -> DispatchRules:
    """The rule set behind the switch `dispatch_rules`."""
    if switch not in RULE_SETS:
        raise UsageError(f"dispatch_rules: unknown value {switch!r}; known are {', '.join(RULE_SETS)}")
    return RULE_SETS[switch](limits)
