"""What padding to captured sizes costs, in tokens and in time, and what replaying graphs saves against that.

Token waste and time waste are separate numbers: padding from 300 to 384 tokens wastes 22 % of the tokens and may cost
nothing, or even save time, because kernels are chosen by tile. Time is T(padded) - T(actual) at equal real rows and KV
lengths: measured in the run itself, or else from the calibrated curve T(size), where attention cancels out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .padding_costs import Costs, ReplayedSteps, costs_of
from .stats import Number, exact_ratio, share, total
from .tables import Process, TableSource, counted_steps, first_by, ints, nullable, processes, records, texts

SIZE_COLUMNS = {
    "size": "Int64", "mode": "string", "steps": "Int64", "tokens": "Int64", "padded_tokens": "Int64",
    "wasted_tokens": "Int64", "token_share": "Float64", "time_waste_ns": "Int64", "time_share": "Float64",
    "envelope_waste_ns": "Int64", "replay_saving_ns": "Int64", "other_kernels": "Int64", "timed_steps": "Int64",
    "reason": "string",
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
               timed_steps         steps that the five figures above are about
               reason              why a figure is null, or does not cover all steps
    dispatch   a row for each mode and reason: steps, share of the counted steps that have a decision
    token_share, time_waste_ns, time_waste_mean_ns (a timed step), envelope_waste_ns, replay_saving_ns: over the
               `timed_steps` of the replayed ones, None with `reason`
    origin     where T comes from: `padding_costs.OWN_RUN` or `padding_costs.CALIBRATED`
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
    timed_steps: int
    origin: str
    reason: str | None


def padding(recording: TableSource) -> Padding:
    """Token waste, modelled time waste and dispatch shares; see `Padding`."""
    parts = [_counted_dispatch(process) for process in processes(recording)]
    rows = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    replayed = _replayed(rows)
    costs = costs_of(recording.table("calibration"))
    keys = sorted(set(zip(replayed.size.tolist(), (mode or "" for mode in replayed.mode), strict=True)))
    everything = np.ones(len(replayed.size), dtype=np.bool_)
    time = costs.figures(replayed, everything)
    reason = costs.why_not(replayed, everything) if keys else "no graph was replayed in a counted step"
    return Padding(
        sizes=records([_size_row(replayed, costs, key) for key in keys], SIZE_COLUMNS),
        dispatch=records(_dispatch_rows(rows), DISPATCH_COLUMNS),
        replayed_steps=len(replayed.size), eager_steps=len(rows) - len(replayed.size),
        token_share=share(total(replayed.padded - replayed.tokens), total(replayed.padded)),
        time_waste_ns=time.waste_ns, time_waste_mean_ns=exact_ratio(time.waste_ns, time.timed_steps),
        envelope_waste_ns=time.envelope_ns, replay_saving_ns=time.saving_ns, timed_steps=time.timed_steps,
        origin=costs.origin, reason=reason,
    )


def _counted_dispatch(process: Process) -> pd.DataFrame:
    """Decisions of the counted steps, with the step's padded token count beside them."""
    dispatch, steps = process.rows("dispatch"), process.rows("steps")
    step, in_step = dispatch.ints("step")
    numbers, numbered = steps.ints("step")
    row = first_by(numbers, numbered & counted_steps(steps), step)
    kept = in_step & (row >= 0)
    chosen, at = dispatch[kept], row[kept]
    padded, known = steps.ints("padded_tokens")
    columns = {name: nullable(*chosen.ints(name)) for name in ("size", "num_tokens")}
    words = {name: np.array(chosen.texts(name), dtype=object) for name in ("mode", "reason")}
    return pd.DataFrame({**columns, **words, "padded_tokens": nullable(padded[at], known[at])})


def _replayed(rows: pd.DataFrame) -> ReplayedSteps:
    """Steps with a captured size and a real token count; where the step does not say, it was padded to the size."""
    size, replayed = ints(rows, "size")
    tokens, known = ints(rows, "num_tokens")
    padded, has_padded = ints(rows, "padded_tokens")
    kept = replayed & known
    modes = [mode for mode, ok in zip(texts(rows, "mode"), kept, strict=True) if ok]
    return ReplayedSteps(size[kept], modes, tokens[kept], np.where(has_padded, padded, size)[kept])


def _dispatch_rows(rows: pd.DataFrame) -> list[dict[str, object]]:
    counts = Counter(zip(texts(rows, "mode"), texts(rows, "reason"), strict=True))
    return [
        {"mode": mode, "reason": reason, "steps": count, "share": count / len(rows)}
        for (mode, reason), count in counts.most_common()
    ]


def _size_row(steps: ReplayedSteps, costs: Costs, key: tuple[int, str]) -> dict[str, object]:
    size, mode = key
    mine = (steps.size == size) & np.array([(name or "") == mode for name in steps.mode], dtype=np.bool_)
    tokens, padded = total(steps.tokens[mine]), total(steps.padded[mine])
    time = costs.figures(steps, mine)
    return {
        "size": size, "mode": mode or None, "steps": int(mine.sum()), "tokens": tokens, "padded_tokens": padded,
        "wasted_tokens": padded - tokens, "token_share": share(padded - tokens, padded),
        "time_waste_ns": time.waste_ns, "time_share": time.time_share, "envelope_waste_ns": time.envelope_ns,
        "replay_saving_ns": time.saving_ns, "other_kernels": costs.other_kernels(steps, mine),
        "timed_steps": time.timed_steps, "reason": costs.why_not(steps, mine),
    }
