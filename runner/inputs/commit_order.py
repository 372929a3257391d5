"""When the block table travels: before the CPU builds indices (the article's order), after, or only when it changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ...errors import UsageError
from ...instrumentation.probe.api import ProbeLike
from ..config import CommitOrder
from ..state.block_tables import BlockTables

Commit = Callable[[BlockTables, int], tuple[int, ...]]
"""Copies the first rows of all tables to the device; returns the copies' correlations."""


class TableCommit(Protocol):
    """Called at both ends of the preparation. Each call returns the correlations of its copies.

    `is_late`: `after` will copy, so whatever reads the table has to be enqueued behind it.
    """

    is_late: bool
    skipped_commits: int

    def before(self, tables: BlockTables, num_reqs: int) -> tuple[int, ...]:
        """Before any index is built."""
        ...

    def after(self, tables: BlockTables, num_reqs: int) -> tuple[int, ...]:
        """After everything else that the host prepares; only where `is_late`."""
        ...


class CommitFirst:
    """The copy runs while the CPU builds the indices."""

    is_late = False

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self.skipped_commits = 0

    def before(self, tables: BlockTables, num_reqs: int) -> tuple[int, ...]:
        """Commit."""
        return self._commit(tables, num_reqs)

    def after(self, tables: BlockTables, num_reqs: int) -> tuple[int, ...]:
        """Nothing."""
        return ()


class CommitLast:
    """The copy starts when all other host work of the preparation is done, with nothing left to hide behind but the
    launches of what reads it.
    """

    is_late = True

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self.skipped_commits = 0

    def before(self, tables: BlockTables, num_reqs: int) -> tuple[int, ...]:
        """Nothing."""
        return ()

    def after(self, tables: BlockTables, num_reqs: int) -> tuple[int, ...]:
        """Commit."""
        return self._commit(tables, num_reqs)


class CommitSkip:
    """The counterfactual: no copy while the table on the device is the table on the host.

    A table that changed is committed all the same, first: tokens stay right. `skipped_commits` says how often nothing
    was copied, and an experiment is valid only where that is every measured step (prompt and output blocks reserved
    at admission).
    """

    is_late = False

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self.skipped_commits = 0

    def before(self, tables: BlockTables, num_reqs: int) -> tuple[int, ...]:
        """Commit a dirty table."""
        if tables.dirty:
            return self._commit(tables, num_reqs)
        self.skipped_commits += 1
        return ()

    def after(self, tables: BlockTables, num_reqs: int) -> tuple[int, ...]:
        """Nothing."""
        return ()


def make_commit(order: CommitOrder, probe: ProbeLike) -> TableCommit:
    """The strategy named by the switch `commit_order`; its copy is the range `commit_block_table`."""
    strategies: dict[str, Callable[[Commit], TableCommit]] = {
        "first": CommitFirst, "last": CommitLast, "skip": CommitSkip,
    }  # fmt: skip
    if order not in strategies:
        raise UsageError(f"commit_order: unknown value {order!r}; known are {', '.join(strategies)}")
    return strategies[order](probe.timed("commit_block_table", BlockTables.commit))
