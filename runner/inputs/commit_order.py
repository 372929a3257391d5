"""When the block table travels: before the CPU builds indices (the article's order), after, or only when it changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ...errors import UsageError
from ...instrumentation.probe.api import ProbeLike
from ..config import CommitOrder
from ..state.block_table import BlockTable

Commit = Callable[[BlockTable, int], int]
"""Copies the first rows of the table to the device; returns the copy's correlation."""


class TableCommit(Protocol):
    """Called at both ends of the preparation. Each call returns the correlation of its copy, None if it made none.

    `is_late`: `after` will copy, so whatever reads the table has to be enqueued behind it.
    """

    is_late: bool
    skipped_commits: int

    def before(self, table: BlockTable, num_reqs: int) -> int | None:
        """Before any index is built."""
        ...

    def after(self, table: BlockTable, num_reqs: int) -> int | None:
        """After everything else that the host prepares; only where `is_late`."""
        ...


class CommitFirst:
    """The copy runs while the CPU builds the indices."""

    is_late = False

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self.skipped_commits = 0

    def before(self, table: BlockTable, num_reqs: int) -> int | None:
        """Commit."""
        return self._commit(table, num_reqs)

    def after(self, table: BlockTable, num_reqs: int) -> int | None:
        """Nothing."""
        return None


class CommitLast:
    """The copy starts when all other host work of the preparation is done, with nothing left to hide behind but the
    launches of what reads it.
    """

    is_late = True

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self.skipped_commits = 0

    def before(self, table: BlockTable, num_reqs: int) -> int | None:
        """Nothing."""
        return None

    def after(self, table: BlockTable, num_reqs: int) -> int | None:
        """Commit."""
        return self._commit(table, num_reqs)


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

    def before(self, table: BlockTable, num_reqs: int) -> int | None:
        """Commit a dirty table."""
        if table.dirty:
            return self._commit(table, num_reqs)
        self.skipped_commits += 1
        return None

    def after(self, table: BlockTable, num_reqs: int) -> int | None:
        """Nothing."""
        return None


def make_commit(order: CommitOrder, probe: ProbeLike) -> TableCommit:
    """The strategy named by the switch `commit_order`; its copy is the range `commit_block_table`."""

    def commit(table: BlockTable, num_reqs: int) -> int:
        with probe.range("commit_block_table"):
            return table.commit(num_reqs)

    strategies: dict[str, Callable[[Commit], TableCommit]] = {
        "first": CommitFirst, "last": CommitLast, "skip": CommitSkip,
    }  # fmt: skip
    if order not in strategies:
        raise UsageError(f"commit_order: unknown value {order!r}; known are {', '.join(strategies)}")
    return strategies[order](commit)
