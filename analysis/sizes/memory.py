"""The same optimum under a limit on the graphs' memory, with or without a limit on their number.

A path is kept unless another one to the same node has no more graphs, no more memory and no more cost: what was dropped
could never end better. Where graphs take equal memory that leaves one path for each number of graphs.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from .solve import Links, SizesProblem, check_reached

_NEVER = 1 << 60


class _Path(NamedTuple):
    graphs: int
    memory_bytes: int
    cost_ns: int
    node: int
    before: _Path | None


def best_within_memory(problem: SizesProblem, links: Links) -> tuple[int, ...]:
    """Nodes of the cheapest path within the limits, the fewest of equally cheap ones. Raises UsageError for none."""
    assert problem.memory_bytes is not None
    assert problem.max_bytes is not None
    most = len(problem.candidates) if problem.max_graphs is None else problem.max_graphs
    paths: list[list[_Path]] = [[_Path(0, 0, 0, 0, None)]]
    memory, link, ending = problem.memory_bytes.tolist(), links.link_ns.tolist(), links.ending_ns.tolist()
    for node in range(1, len(ending)):
        taken = memory[node - 1]
        arrived = [
            _Path(path.graphs + 1, path.memory_bytes + taken, path.cost_ns + link[node][last], node, path)
            for last in range(node) if link[node][last] < _NEVER
            for path in paths[last] if path.graphs < most and path.memory_bytes + taken <= problem.max_bytes
        ]  # fmt: skip
        paths.append(_undominated(arrived))
    best, lowest = None, _NEVER
    for path in sorted((path for held in paths for path in held), key=lambda path: path.graphs):
        if path.cost_ns + ending[path.node] < lowest:
            best, lowest = path, path.cost_ns + ending[path.node]
    check_reached(lowest)
    return _nodes(best)


def _undominated(paths: list[_Path]) -> list[_Path]:
    """Of paths to one node those that no other beats; `stairs` are (memory, cost) of the kept ones, costs falling."""
    kept: list[_Path] = []
    memories: list[int] = []
    costs: list[int] = []
    for path in sorted(paths, key=lambda path: path[:3]):
        at = bisect_right(memories, path.memory_bytes)
        if at and costs[at - 1] <= path.cost_ns:
            continue
        kept.append(path)
        end = at
        while end < len(costs) and costs[end] >= path.cost_ns:
            end += 1
        start = at - 1 if at and memories[at - 1] == path.memory_bytes else at
        memories[start:end], costs[start:end] = [path.memory_bytes], [path.cost_ns]
    return kept


def _nodes(path: _Path | None) -> tuple[int, ...]:
    nodes: list[int] = []
    while path is not None and path.node:
        nodes.append(path.node)
        path = path.before
    return tuple(reversed(nodes))
