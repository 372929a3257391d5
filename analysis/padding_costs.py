"""What time the replayed steps are charged with: pairs measured in the run itself, or a calibrated curve T(size)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from .curves import Curve, curve
from .stats import share, total
from .tables import BoolArray, LongArray, Table, columns_of

OWN_RUN = "measured in the run"
CALIBRATED = "calibrated curve"


@dataclass(frozen=True, slots=True)
class ReplayedSteps:
    """Counted steps that replayed a graph, as parallel arrays."""

    size: LongArray
    mode: list[str | None]
    tokens: LongArray
    padded: LongArray


class TimeFigures(NamedTuple):
    """Sums over those of the chosen steps whose times are known, and how many they are; None where none is."""

    waste_ns: int | None = None
    envelope_ns: int | None = None
    saving_ns: int | None = None
    spent_ns: int | None = None
    timed_steps: int = 0

    @property
    def time_share(self) -> float | None:
        """The waste as a share of T(padded)."""
        if self.waste_ns is None or self.spent_ns is None:
            return None
        return share(self.waste_ns, self.spent_ns)


class Costs(Protocol):
    """One way to know T."""

    @property
    def origin(self) -> str:
        """OWN_RUN or CALIBRATED."""
        ...

    def figures(self, steps: ReplayedSteps, mine: BoolArray) -> TimeFigures:
        """Waste, waste against the envelope and saving against eager of the steps chosen by `mine`."""
        ...

    def other_kernels(self, steps: ReplayedSteps, mine: BoolArray) -> int | None:
        """Steps whose actual size would have chosen other kernels; None where hashes are missing."""
        ...

    def why_not(self, steps: ReplayedSteps, mine: BoolArray) -> str | None:
        """Why a figure of these steps is None, or does not cover all of them."""
        ...


def costs_of(calibration: Table) -> Costs:
    """Pairs of the run itself where the table has them, else the calibrated curves."""
    calibration = columns_of(calibration)
    pairs = _pairs(calibration, "replay_ns")
    if pairs:
        return PairCosts(pairs, {key: time_ns for key, (time_ns, _) in _pairs(calibration, "eager_ns").items()})
    graph, why_no_time = curve(calibration, "graph_ns")
    eager, why_no_eager = curve(calibration, "eager_span_ns")
    return CurveCosts(graph, eager, why_no_time, why_no_eager)


_Key = tuple[str, int, int]
"""(mode, size, tokens)."""


def _pairs(calibration: Table, name: str) -> dict[_Key, tuple[int, str | None]]:
    """Rows `name` with keys `<mode>/<size>/<tokens>`: time in ns and hash of the kernels' names."""
    rows = columns_of(calibration)
    rows = rows[rows.matches("name", name)]
    value, valid = rows.floats("value")
    found = {}
    for key, time_ns, ok, kernels in zip(rows.texts("key"), value, valid, rows.texts("kernel_hash"), strict=True):
        mode, _, sizes = (key or "").partition("/")
        size, _, tokens = sizes.partition("/")
        if ok and size.isdecimal() and tokens.isdecimal():
            found[mode, int(size), int(tokens)] = round(float(time_ns)), kernels
    return found


@dataclass(frozen=True, slots=True)
class CurveCosts:
    """Staircases T(size): one step beyond the largest measured size, and no figure of its group is given."""

    graph: Curve | None
    eager: Curve | None
    why_no_time: str | None
    why_no_eager: str | None
    origin: str = CALIBRATED

    def figures(self, steps: ReplayedSteps, mine: BoolArray) -> TimeFigures:
        """See Costs."""
        if self.graph is None or not mine.any():
            return TimeFigures()
        padded, has_padded = self.graph.place(steps.padded[mine])
        actual, has_actual = self.graph.place(steps.tokens[mine])
        if not (has_padded & has_actual).all():
            return TimeFigures()
        spent = self.graph.time_ns[padded]
        waste = total(spent - self.graph.time_ns[actual])
        envelope = total(spent - self.graph.envelope_ns()[actual])
        saving = None
        if self.eager is not None:
            eager, has_eager = self.eager.place(steps.tokens[mine])
            saving = total(self.eager.time_ns[eager] - spent) if has_eager.all() else None
        return TimeFigures(waste, envelope, saving, total(spent), int(mine.sum()))

    def other_kernels(self, steps: ReplayedSteps, mine: BoolArray) -> int | None:
        """See Costs."""
        if self.graph is None or None in self.graph.kernels:
            return None
        kernels = np.array(self.graph.kernels, dtype=object)
        padded, has_padded = self.graph.place(steps.padded[mine])
        actual, has_actual = self.graph.place(steps.tokens[mine])
        if not (has_padded & has_actual).all():
            return None
        return int((kernels[padded] != kernels[actual]).sum())

    def why_not(self, steps: ReplayedSteps, mine: BoolArray) -> str | None:
        """See Costs; the size that the curve does not reach, if there is one."""
        if self.graph is not None and mine.any():
            largest, top = int(steps.padded[mine].max()), int(self.graph.sizes[-1])
            if largest > top:
                return f"size {largest} lies above the largest measured size {top}"
        return self.why_no_time or self.why_no_eager


@dataclass(frozen=True, slots=True)
class PairCosts:
    """T(padded) and T(actual) of the shapes that the run measured. Steps of other shapes are left out of the sums.

    The envelope is that of the sizes measured for a shape: the lesser of the two times.
    """

    times: dict[_Key, tuple[int, str | None]]
    eager: dict[_Key, int]
    origin: str = OWN_RUN

    def figures(self, steps: ReplayedSteps, mine: BoolArray) -> TimeFigures:
        """See Costs."""
        known = [key for key in self._keys(steps, mine) if self._known(key)]
        if not known:
            return TimeFigures()
        padded = [self.times[key][0] for key in known]
        actual = [self.times[_exact(key)][0] for key in known]
        saved = [self.eager[key] - time_ns for key, time_ns in zip(known, padded, strict=True) if key in self.eager]
        return TimeFigures(
            waste_ns=sum(padded) - sum(actual),
            envelope_ns=sum(padded) - sum(map(min, padded, actual)),
            saving_ns=sum(saved) if len(saved) == len(known) else None,
            spent_ns=sum(padded),
            timed_steps=len(known),
        )

    def other_kernels(self, steps: ReplayedSteps, mine: BoolArray) -> int | None:
        """See Costs; of the timed steps."""
        known = [key for key in self._keys(steps, mine) if self._known(key)]
        pairs = [(self.times[key][1], self.times[_exact(key)][1]) for key in known]
        if not pairs or any(None in pair for pair in pairs):
            return None
        return sum(padded != actual for padded, actual in pairs)

    def why_not(self, steps: ReplayedSteps, mine: BoolArray) -> str | None:
        """See Costs."""
        keys = self._keys(steps, mine)
        missing = sum(not self._known(key) for key in keys)
        if not missing:
            return None if all(key in self.eager for key in keys) else "no eager time of every shape in this run"
        return f"{missing} of {len(keys)} steps have token counts that carry less than 1 % of the run each: not timed"

    def _keys(self, steps: ReplayedSteps, mine: BoolArray) -> list[_Key]:
        at = np.flatnonzero(mine)
        return [(steps.mode[i] or "", int(steps.padded[i]), int(steps.tokens[i])) for i in at.tolist()]

    def _known(self, key: _Key) -> bool:
        return key in self.times and _exact(key) in self.times


def _exact(key: _Key) -> _Key:
    mode, _, tokens = key
    return mode, tokens, tokens
