"""From measured curves to the optimiser's problem, and what a list of sizes costs a stream of steps.

T = G(size) + A(size; rows, KV). G is taken at the captured size (the next measured size where it was not), never
interpolated. Attention is masked, but not quite the same at every size: a graph keeps the launch that was
chosen for its rows, real or not, and at few rows that decides among how many programs a row's keys are shared out. What
it takes longer so is known of one row (`SizesCosts.sized`); all else of A is the same in every arm and left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import UsageError
from ..curves import Curve
from ..tables import LongArray
from .solve import SizesProblem
from .stream import PRIOR, SizesStream


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesLimits:
    """What the list may be.

    maximum     the largest captured size, which is forced
    multiple    sizes are multiples of it: tokens of a decode with drafts, ranks that share a sequence
    forced      further sizes that must be captured
    max_graphs  most graphs; None sets no limit
    max_bytes   memory of all graphs together, judged by `memory_bytes` of each candidate; None sets no limit
    prior       share of the steps that is spread over all sizes (`SizesStream.histogram_with_prior`); 0 trusts them
    """

    maximum: int
    multiple: int = 1
    forced: tuple[int, ...] = ()
    max_graphs: int | None = None
    max_bytes: int | None = None
    prior: float = PRIOR


@dataclass(frozen=True, slots=True)
class SizesCosts:
    """T(size) of a replay and T(tokens) of the eager forward, launches included, without attention.

    sized   attention of one row in a graph of so many rows; None where it was not measured, or makes no difference:
            on a modelled device, and where requests have several queries each. Steps with prompts replay without
            attention and know the real rows only; they are large, and there it hardly changes any more.
    """

    graph: Curve
    eager: Curve
    sized: Curve | None = None

    def pooled(self) -> SizesCosts:
        """Measured curves without their noise, for choosing: every size was captured once, and the one that was lucky
        would be taken for the better one (H200: same size, other graph, 5 us more or less).
        """
        sized = None if self.sized is None else self.sized.pooled(within_kernels=False)
        return replace(self, graph=self.graph.pooled(within_kernels=True), sized=sized)

    def without_attention(self) -> SizesCosts:
        """For those who add an attention of their own."""
        return replace(self, sized=None)

    def graph_ns(self, sizes: LongArray) -> LongArray:
        """T of captured sizes. Raises UsageError above the largest measured one."""
        return _placed(self.graph, sizes, "a graph") + self._longer_ns(sizes)

    def eager_ns(self, tokens: LongArray) -> LongArray:
        """T of eager forwards. Raises UsageError above the largest measured one."""
        return _placed(self.eager, tokens, "an eager forward") + self._longer_ns(tokens)

    def _longer_ns(self, sizes: LongArray) -> LongArray:
        """What attention takes longer than in the smallest graph; above the largest measured one as in that."""
        if self.sized is None:
            return np.zeros(len(sizes), dtype=np.int64)
        at, _ = self.sized.place(sizes)
        longer: LongArray = self.sized.time_ns[at] - self.sized.time_ns[0]
        return longer

    def step_ns(self, sizes: Sequence[int], tokens: LongArray) -> LongArray:
        """What each step of `tokens` costs with the ascending `sizes` captured: the engine's rule."""
        captured = np.asarray(sizes, dtype=np.int64)
        at = np.searchsorted(captured, tokens, side="left")
        replayed = at < len(captured)
        cost = np.empty(len(tokens), dtype=np.int64)
        cost[replayed] = self.graph_ns(captured)[at[replayed]]
        cost[~replayed] = self.eager_ns(tokens[~replayed])
        return cost


def candidates_of(limits: SizesLimits, costs: SizesCosts) -> LongArray:
    """Every measured size that the limits allow, and the forced ones. Raises UsageError for a forced size that is no
    multiple, or lies above the maximum.
    """
    forced = {limits.maximum, *limits.forced}
    for size in forced:
        if size < 1 or size % limits.multiple or size > limits.maximum:
            raise UsageError(
                f"sizes: {size} cannot be forced; it must be a multiple of {limits.multiple} from {limits.multiple} to "
                f"{limits.maximum}"
            )
    measured = costs.graph.sizes
    allowed = measured[(measured <= limits.maximum) & (measured % limits.multiple == 0) & (measured > 0)]
    return np.array(sorted({*allowed.tolist(), *forced}), dtype=np.int64)


def problem_of(
    stream: SizesStream, costs: SizesCosts, limits: SizesLimits, memory_bytes: LongArray | None = None
) -> SizesProblem:
    """The problem of choosing sizes for `stream`; `memory_bytes` stand for `candidates_of(limits, costs)`."""
    candidates = candidates_of(limits, costs)
    tokens, steps = stream.histogram_with_prior(limits.prior, limits.maximum)
    return SizesProblem(
        tokens=tokens, steps=steps, eager_ns=costs.eager_ns(tokens),
        candidates=candidates, graph_ns=costs.graph_ns(candidates),
        forced=np.isin(candidates, [limits.maximum, *limits.forced]),
        max_graphs=limits.max_graphs, memory_bytes=memory_bytes, max_bytes=limits.max_bytes,
    )  # fmt: skip


def _placed(curve: Curve, wanted: LongArray, what: str) -> LongArray:
    at, known = curve.place(wanted)
    if not known.all():
        raise UsageError(
            f"sizes: {what} of {int(wanted[~known].max())} tokens lies above {int(curve.sizes[-1])}, the largest "
            "that was measured; lower the maximum, or leave those steps out"
        )
    return curve.time_ns[at]
