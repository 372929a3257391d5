"""Which CUDA-graph sizes to capture: the exact optimum over all subsets of the candidates, by dynamic programming.

The engine's rule is the next captured size: n tokens run in the smallest captured size >= n, whatever that takes, and
eagerly above the largest one. T need not be monotone, so a size can pay that no step has, and one can hurt.

    tokens     1   3   5   9      steps 10 20 5 1       candidates 2 4 6 8, T(2) = 10, T(4) = 11, T(6) = 30, T(8) = 14
    {4, 8}     30 steps at T(4), 5 at T(8), 9 tokens run eagerly

Costs are sums over steps in ns. With sizes c(1) < c(2) < ... the cost of choosing c(j) next after c(i) is T(c(j)) times
the steps with c(i) < n <= c(j): it depends on these two alone, so the best choice that ends at c(j) extends the best
one that ends at some c(i).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import UsageError
from ..tables import BoolArray, LongArray

_NEVER = np.int64(1) << np.int64(60)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesProblem:
    """What there is to choose from, and for whom.

    tokens, steps, eager_ns  [n] ascending distinct token counts, how many steps have each, its time without a graph
    candidates, graph_ns     [m] ascending sizes, T of each
    forced                   [m] sizes that must be captured
    max_graphs               most graphs; None sets no limit
    memory_bytes, max_bytes  [m] what each graph takes, and what all may take together; None sets no limit
    """

    tokens: LongArray
    steps: LongArray
    eager_ns: LongArray
    candidates: LongArray
    graph_ns: LongArray
    forced: BoolArray
    max_graphs: int | None = None
    memory_bytes: LongArray | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class BestSizes:
    """The sizes with the least cost, ascending, the fewest of equally good ones; none where no graph pays."""

    sizes: tuple[int, ...]
    cost_ns: int


@dataclass(frozen=True, slots=True)
class Links:
    """The problem as a path: node 0 is "nothing captured yet", node j the j-th candidate.

    link_ns   [m+1, m+1] (j, i): cost of capturing j next after i; _NEVER where a forced size would be passed over
    ending_ns [m+1] cost of the steps above node j, which run eagerly; _NEVER where a forced size is left out
    """

    link_ns: LongArray
    ending_ns: LongArray


def solve_sizes(problem: SizesProblem) -> BestSizes:
    """The exact optimum. Raises UsageError where the limits leave no room for the forced sizes."""
    links = links_of(problem)
    if problem.max_bytes is not None and problem.memory_bytes is not None:
        from .memory import best_within_memory

        nodes = best_within_memory(problem, links)
    elif problem.max_graphs is None or problem.max_graphs >= len(problem.candidates):
        nodes = _shortest(links)
    else:
        nodes = _shortest_of_at_most(links, problem.max_graphs)
    return BestSizes(tuple(int(problem.candidates[node - 1]) for node in nodes), path_cost_ns(links, nodes))


def links_of(problem: SizesProblem) -> Links:
    """Costs of all links. Raises UsageError for sums that 64-bit integers do not hold."""
    count = len(problem.candidates)
    longest = max([1, *problem.graph_ns.tolist(), *problem.eager_ns.tolist()])
    if longest * int(problem.steps.sum()) * (count + 1) >= int(_NEVER):
        raise UsageError("sizes: the sum of all step times does not fit 64 bits; give fewer steps")
    place = np.searchsorted(problem.tokens, problem.candidates, side="right")
    steps = np.concatenate(([0], np.cumsum(problem.steps)))
    below = np.concatenate(([0], steps[place]))  # [m+1] steps that node j and those before it hold
    graph_ns = np.concatenate(([0], problem.graph_ns))
    nodes = np.arange(count + 1)
    passed = np.concatenate(([0], np.maximum.accumulate(np.where(problem.forced, nodes[1:], 0))))  # last forced <= j
    behind = np.concatenate(([0], passed[:-1]))  # last forced < j
    link = graph_ns[:, None] * (below[:, None] - below[None, :])
    link[(nodes[None, :] >= nodes[:, None]) | (nodes[None, :] < behind[:, None])] = _NEVER
    eager = np.concatenate(([0], np.cumsum(problem.steps * problem.eager_ns)))
    ending = eager[-1] - np.concatenate(([0], eager[place]))
    ending[nodes < passed[-1]] = _NEVER
    return Links(link.astype(np.int64), ending.astype(np.int64))


def path_cost_ns(links: Links, nodes: tuple[int, ...]) -> int:
    """Cost of capturing the candidates behind ascending `nodes` and nothing else."""
    before = (0, *nodes[:-1])
    steps_ns = sum(int(links.link_ns[node, last]) for node, last in zip(nodes, before, strict=False))
    return steps_ns + int(links.ending_ns[nodes[-1] if nodes else 0])


def check_reached(cost_ns: int) -> None:
    """Raises UsageError where no choice keeps all limits."""
    if cost_ns >= int(_NEVER):
        raise UsageError("sizes: the sizes that must be captured do not fit the limit; raise it, or force fewer")


def _shortest(links: Links) -> tuple[int, ...]:
    """No limit: the cheapest path; one more graph costs 1 in the last place, so the fewest of equal ones win."""
    scale = len(links.ending_ns)
    best = np.full(scale, _NEVER, dtype=np.int64)
    best[0] = 0
    came = np.zeros(scale, dtype=np.int64)
    for node in range(1, scale):
        allowed = np.flatnonzero(links.link_ns[node, :node] < _NEVER)
        costs = best[allowed] + links.link_ns[node, allowed] * scale + 1
        at = int(costs.argmin())
        best[node], came[node] = costs[at], allowed[at]
    open_end = links.ending_ns < _NEVER
    total = np.where(open_end, best + np.where(open_end, links.ending_ns, 0) * scale, _NEVER)
    node = int(total.argmin())
    nodes: list[int] = []
    while node:
        nodes.append(node)
        node = int(came[node])
    return tuple(reversed(nodes))


def _shortest_of_at_most(links: Links, max_graphs: int) -> tuple[int, ...]:
    """The cheapest path of at most `max_graphs` nodes: layer k holds the best paths of exactly k."""
    best = np.full(len(links.ending_ns), _NEVER, dtype=np.int64)
    best[0] = 0
    layers: list[LongArray] = []
    lowest, found = int(np.minimum(best + links.ending_ns, _NEVER).min()), (0, 0)
    if links.ending_ns[0] >= _NEVER:
        lowest = int(_NEVER)
    for graphs in range(1, max_graphs + 1):
        costs = links.link_ns + best[None, :]
        came = costs.argmin(axis=1)
        best = np.minimum(np.take_along_axis(costs, came[:, None], axis=1)[:, 0], _NEVER)
        layers.append(came)
        total = np.minimum(best + links.ending_ns, _NEVER)
        if int(total.min()) < lowest:
            lowest, found = int(total.min()), (graphs, int(total.argmin()))
    check_reached(lowest)
    graphs, node = found
    nodes = []
    for came in reversed(layers[:graphs]):
        nodes.append(node)
        node = int(came[node])
    return tuple(reversed(nodes))
