"""What padding to captured sizes costs, in tokens and in time, and what replaying graphs saves against that.

Token waste and time waste are separate numbers: padding from 300 to 384 tokens wastes 22 % of the tokens and may cost
nothing, or even save time, because kernels are chosen by tile. Time is modelled from the measured curve T(size) at
equal real rows and KV lengths, where attention cancels out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .curves import Curve, curve
from .stats import Number, exact_ratio, share, total
from .tables import BoolArray, LongArray, Process, TableSource, counted_steps, first_by, ints, processes, records, texts

SIZE_COLUMNS = {
    "size": "Int64", "mode": "string", "steps": "Int64", "tokens": "Int64", "padded_tokens": "Int64",
    "wasted_tokens": "Int64", "token_share": "Float64", "time_waste_ns": "Int64", "time_share": "Float64",
    "envelope_waste_ns": "Int64", "replay_saving_ns": "Int64", "other_kernels": "Int64", "reason": "string",
}
DISPATCH_COLUMNS = {"mode": "string", "reason": "string", "steps": "Int64", "share": "Float64"}


@dataclass(frozen=True, slots=True)
class Padding:
    """Padding of the counted steps.

    sizes      a row for each captured size and mode that was replayed, ascending:
               steps, tokens (real), padded_tokens, wasted_tokens, token_share (wasted / padded)
               time_waste_ns       sum of T(padded) - T*(actual); may be negative, never clamped
               time_share          of the sum of T(padded)
               envelope_waste_ns   the same against the lower monotone envelope of T (what the best measured size that
                                   holds the tokens would cost)
               replay_saving_ns    sum of T_eager(actual) - T(padded)
               other_kernels       steps whose real size would have chosen other kernels than the padded one
               reason              why a figure is null
    dispatch   a row for each mode and reason: steps, share of the counted steps that have a decision
    token_share, time_waste_ns, time_waste_mean_ns (a replayed step), envelope_waste_ns, replay_saving_ns: over all
               replayed steps, None with `reason`
    """

    sizes: pd.DataFrame
    dispatch: pd.DataFrame
    replayed_steps: int
    eager_steps: int
    token_share: float | None
    time_waste_ns: int | None
    time_waste_mean_ns: Number | None
    envelope_waste_ns: int | None
    replay_saving_ns: int | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class _Steps:
    """Counted steps that replayed a graph, as parallel arrays."""

    size: LongArray
    mode: list[str | None]
    tokens: LongArray
    padded: LongArray


def padding(recording: TableSource) -> Padding:
    """Token waste, modelled time waste and dispatch shares; see `Padding`."""
    parts = [_counted_dispatch(process) for process in processes(recording)]
    rows = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    replayed = _replayed(rows)
    calibration = recording.table("calibration")
    graph, why_no_time = curve(calibration, "graph_ns")
    eager, why_no_eager = curve(calibration, "eager_span_ns")
    costs = _Costs(graph, eager)
    keys = sorted(set(zip(replayed.size.tolist(), (mode or "" for mode in replayed.mode), strict=True)))
    sizes = [_size_row(replayed, costs, key, why_no_time or why_no_eager) for key in keys]
    everything = np.ones(len(replayed.size), dtype=np.bool_)
    waste, envelope, saving = costs.totals(replayed, everything)
    reason = None if keys else "no graph was replayed in a counted step"
    return Padding(
        sizes=records(sizes, SIZE_COLUMNS), dispatch=records(_dispatch_rows(rows), DISPATCH_COLUMNS),
        replayed_steps=len(replayed.size), eager_steps=len(rows) - len(replayed.size),
        token_share=share(total(replayed.padded - replayed.tokens), total(replayed.padded)),
        time_waste_ns=waste, time_waste_mean_ns=exact_ratio(waste, len(replayed.size)), envelope_waste_ns=envelope,
        replay_saving_ns=saving, reason=reason or why_no_time or costs.why_not(replayed, everything) or why_no_eager,
    )


def _counted_dispatch(process: Process) -> pd.DataFrame:
    """Decisions of the counted steps, with the step's padded token count beside them."""
    dispatch, steps = process.table("dispatch"), process.table("steps")
    step, in_step = ints(dispatch, "step")
    numbers, numbered = ints(steps, "step")
    row = first_by(numbers, numbered & counted_steps(steps), step)
    kept = in_step & (row >= 0)
    padded, known = ints(steps, "padded_tokens")
    chosen = dispatch[kept].copy()
    at = row[kept]
    chosen["padded_tokens"] = pd.arrays.IntegerArray(padded[at].copy(), ~known[at])
    return chosen


def _replayed(rows: pd.DataFrame) -> _Steps:
    """Steps with a captured size and a real token count; where the step does not say, it was padded to the size."""
    size, replayed = ints(rows, "size")
    tokens, known = ints(rows, "num_tokens")
    padded, has_padded = ints(rows, "padded_tokens")
    kept = replayed & known
    modes = [mode for mode, ok in zip(texts(rows, "mode"), kept, strict=True) if ok]
    return _Steps(size[kept], modes, tokens[kept], np.where(has_padded, padded, size)[kept])


def _dispatch_rows(rows: pd.DataFrame) -> list[dict[str, object]]:
    counts = Counter(zip(texts(rows, "mode"), texts(rows, "reason"), strict=True))
    return [
        {"mode": mode, "reason": reason, "steps": count, "share": count / len(rows)}
        for (mode, reason), count in counts.most_common()
    ]


def _size_row(steps: _Steps, costs: _Costs, key: tuple[int, str], no_curve: str | None) -> dict[str, object]:
    size, mode = key
    mine = (steps.size == size) & np.array([(name or "") == mode for name in steps.mode], dtype=np.bool_)
    tokens, padded = total(steps.tokens[mine]), total(steps.padded[mine])
    waste, envelope, saving = costs.totals(steps, mine)
    return {
        "size": size, "mode": mode or None, "steps": int(mine.sum()), "tokens": tokens, "padded_tokens": padded,
        "wasted_tokens": padded - tokens, "token_share": share(padded - tokens, padded),
        "time_waste_ns": waste, "time_share": costs.time_share(steps, mine, waste), "envelope_waste_ns": envelope,
        "replay_saving_ns": saving, "other_kernels": costs.other_kernels(steps, mine),
        "reason": costs.why_not(steps, mine) or no_curve,
    }


@dataclass(frozen=True, slots=True)
class _Costs:
    """The curves that time is modelled with; every figure is None where a curve, or a size on it, is missing."""

    graph: Curve | None
    eager: Curve | None

    def totals(self, steps: _Steps, mine: BoolArray) -> tuple[int | None, int | None, int | None]:
        """(time waste, waste against the envelope, saving against eager) over the chosen steps, in ns."""
        if self.graph is None or not mine.any():
            return None, None, None
        padded, has_padded = self.graph.place(steps.padded[mine])
        actual, has_actual = self.graph.place(steps.tokens[mine])
        if not (has_padded & has_actual).all():
            return None, None, None
        spent = self.graph.time_ns[padded]
        waste = total(spent - self.graph.time_ns[actual])
        envelope = total(spent - self.graph.envelope_ns()[actual])
        if self.eager is None:
            return waste, envelope, None
        eager, has_eager = self.eager.place(steps.tokens[mine])
        saving = total(self.eager.time_ns[eager] - spent) if has_eager.all() else None
        return waste, envelope, saving

    def time_share(self, steps: _Steps, mine: BoolArray, waste: int | None) -> float | None:
        """The waste as a share of T(padded)."""
        if self.graph is None or waste is None:
            return None
        return share(waste, total(self.graph.time_ns[self.graph.place(steps.padded[mine])[0]]))

    def other_kernels(self, steps: _Steps, mine: BoolArray) -> int | None:
        """Steps whose actual and padded sizes lie on stairs of different kernels; None where hashes are missing."""
        if self.graph is None or None in self.graph.kernels:
            return None
        kernels = np.array(self.graph.kernels, dtype=object)
        padded, has_padded = self.graph.place(steps.padded[mine])
        actual, has_actual = self.graph.place(steps.tokens[mine])
        if not (has_padded & has_actual).all():
            return None
        return int((kernels[padded] != kernels[actual]).sum())

    def why_not(self, steps: _Steps, mine: BoolArray) -> str | None:
        """The size that the curve does not reach, if there is one."""
        if self.graph is None or not mine.any():
            return None
        largest = int(steps.padded[mine].max())
        top = int(self.graph.sizes[-1])
        return f"size {largest} lies above the largest measured size {top}" if largest > top else None
