"""Arms on one runner: points that differ in nothing but the commit order take turns on the same requests and memory.

Runners of their own differ by where their buffers, graphs and objects happen to lie: on an H200 up to 15 us a step on
the device and as much on the host, the size of what is asked for. Here an arm is a switch that is thrown between two
blocks. The rows of all arms come from one ledger and are told apart by step; each point gets a recording of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..instrumentation.probe.ledger import Row
from ..instrumentation.recording.meta import Diagnostic, SweepKeys
from ..instrumentation.recording.reader import Recording
from ..runner.config import CommitOrder
from .loop import LoopLimits
from .resolve import workload_of
from .session import Measured, Session
from .spec import PointSpec
from .visits import whole_visits

AXIS = "runner.commit_order"


@dataclass(slots=True)
class HeldRows:
    """Rows of all arms, in memory until the arms are told apart, and the arm of each step of a block."""

    tables: dict[str, list[Row]] = field(default_factory=dict)
    arm_of: dict[int, int] = field(default_factory=dict)

    def write(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """See RowSink."""
        for table, added in rows.items():
            self.tables.setdefault(table, []).extend(added)

    def flush_if_due(self, now_ns: int) -> None:
        """They stay in memory."""

    def of(self, arm: int) -> dict[str, list[Row]]:
        """The arm's rows, and those of no block: the warm-up, costs, what happened between steps."""
        owner = self.arm_of
        return {
            table: [row for row in rows if row[0] is None or owner.get(row[0], arm) == arm]
            for table, rows in self.tables.items()
        }


class Arm:
    """One commit order on the shared runner; looks like a session to whoever lets arms take turns."""

    def __init__(self, session: Session, held: HeldRows, number: int, order: CommitOrder) -> None:
        self._session, self._held, self._number, self._order = session, held, number, order

    @property
    def warmup_steps(self) -> int:
        """Of the shared session."""
        return self._session.warmup_steps

    def activate(self) -> None:
        """Throw the switch."""
        self._session.activate()
        self._session.runner.commit_in_order(self._order)

    def run(self, limits: LoopLimits, interrupted: Callable[[], bool] = lambda: False) -> None:
        """The warm-up is run once for all."""
        if self._session.loop.num_steps < limits.warmup_steps + (limits.steps or 0):
            self._session.run(limits, interrupted)

    def hand_over(self) -> None:
        """See Session."""
        self._session.hand_over()

    def block(self, settle: int, steps: int, interrupted: Callable[[], bool] = lambda: False) -> list[int]:
        """See Session; the block's steps are this arm's."""
        begin = self._session.loop.num_steps
        starts = self._session.block(settle, steps, interrupted)
        self._held.arm_of.update(dict.fromkeys(range(begin, self._session.loop.num_steps), self._number))
        return starts


def _for_all(specs: Sequence[PointSpec]) -> PointSpec:
    """The first point, with requests that last for the blocks of all."""
    measure = specs[0].measure
    return replace(specs[0], measure=replace(measure, blocks=whole_visits(measure) * len(specs)))


class OneRunner:
    """The session behind the arms of one launch."""

    def __init__(self, specs: Sequence[PointSpec], folder: Path) -> None:
        for spec in specs:
            workload_of(spec)  # refuses an order that this workload does not allow
        self.held = HeldRows()
        self.session = Session(_for_all(specs), folder, rows=self.held)
        orders = [spec.runner.commit_order for spec in specs]
        self.arms = [Arm(self.session, self.held, number, order) for number, order in enumerate(orders)]

    def books(self, *, own_costs: bool | None = None) -> list[Diagnostic]:
        """After the last block: all rows, and notes for every recording. `own_costs` None: where graphs were padded."""
        return self.session.books(own_costs=self.session.padded if own_costs is None else own_costs)

    def measured(
        self, number: int, spec: PointSpec, folder: Path | None, sweep: SweepKeys, notes: Sequence[Diagnostic]
    ) -> Measured:
        """The recording of one arm, saved in `folder` (None: nowhere)."""
        meta = self.session.meta_of(spec, sweep).with_diagnostics(*notes)
        recording = Recording.from_ledger(self.held.of(number), meta)
        if folder is not None:
            recording.save(folder)
        return self.session.measured(recording, folder)

    def close(self) -> None:
        """See Session."""
        self.session.close()
