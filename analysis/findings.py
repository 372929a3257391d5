"""What a recording says to the four questions, as data: a code, figures, and a weight to rank by.

Turning a finding into a sentence is the reports' work; nothing here rounds or formats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .pace import step_ns
from .phases import CLOSING_LIMIT, HOST_PHASES
from .stats import Number
from .summary import Summary
from .window import MASKS

Value = Number | str | None
NEGLIGIBLE_SHARE = 0.01
"""Of the period: below that an effect is called none."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement.

    question  1 time of a step, 2 block-table copy, 3 pinned buffers, 4 padding
    code      what is said
    weight    what it is about as a share of the period; wrong data weighs more than any time (2 and above), and what
              could not be answered weighs 0
    values    the figures that the statement is made of
    """

    question: int
    code: str
    weight: float
    values: Mapping[str, Value]


def findings(summary: Summary) -> list[Finding]:
    """Findings by weight, heaviest first; each question has at least one, if only that it was not measured."""
    found = [finding for answer in (_time, _copy, _pinned, _padding) for finding in answer(summary)]
    return sorted(found, key=lambda finding: -finding.weight)


def _of_period(summary: Summary, value: Number | None) -> float:
    period = step_ns(summary.metrics)
    return abs(value) / period if value is not None and period else 0.0


def _unknown(summary: Summary, question: int, name: str) -> Finding:
    return Finding(question, "not_measured", 0.0, {"figure": name, "reason": summary.reasons.get(name, "not recorded")})


def _time(summary: Summary) -> Iterator[Finding]:
    metrics = summary.metrics
    shares = {name: value for name in HOST_PHASES if (value := metrics.get(f"{name}_share")) is not None}
    if not shares:
        yield _unknown(summary, 1, "preprocess_share")
    else:
        largest = max(shares, key=lambda name: shares[name])
        yield Finding(1, "largest_host_phase", float(shares[largest]), {
            "phase": largest, "share": shares[largest], "p50_ns": metrics[f"{largest}_p50_ns"],
        })
    gap = metrics.get("phases_worst_gap_share")
    if gap is not None and gap > CLOSING_LIMIT:
        yield Finding(1, "phases_do_not_close", float(gap), {"worst": gap, "closed": metrics["phases_close_share"]})
    bounds = {name: value for name in ("host", "device", "copy", "event")
              if (value := metrics.get(f"{name}_bound_share")) is not None}
    if not bounds:
        yield _unknown(summary, 1, "host_bound_share")
        return
    bound = max(bounds, key=lambda name: bounds[name])
    idle = metrics.get("idle_before_forward_p50_ns")
    yield Finding(1, f"{bound}_bound", _of_period(summary, idle), {"share": bounds[bound], "idle_p50_ns": idle})


def _copy(summary: Summary) -> Iterator[Finding]:
    metrics = summary.metrics
    exposed, hidden, copy = (metrics.get(name) for name in ("exposed_p50_ns", "hidden_p50_ns", "table_copy_p50_ns"))
    step = metrics.get("exposed_step_ns")
    if exposed is None or hidden is None:
        yield _unknown(summary, 2, "exposed_p50_ns")
    else:
        masks = {mask: value for mask in MASKS if (value := metrics.get(f"hidden_by_{mask}_p50_ns"))}
        code = "copy_hidden" if not exposed else "copy_exposed" if not hidden else "copy_partly_hidden"
        yield Finding(2, code, _of_period(summary, exposed), {
            "copy_ns": copy, "exposed_ns": exposed, "hidden_ns": hidden,
            "hidden_by": max(masks, key=lambda mask: masks[mask]) if masks else None,
        })
    if step is None:
        yield _unknown(summary, 2, "exposed_step_ns")
    else:
        small = _of_period(summary, step) < NEGLIGIBLE_SHARE
        yield Finding(2, "copy_costs_no_period" if small else "copy_costs_period", _of_period(summary, step), {
            "exposed_step_ns": step, "period_ns": step_ns(metrics),
        })


def _pinned(summary: Summary) -> Iterator[Finding]:
    metrics = summary.metrics
    observed, possible = metrics.get("hazards_observed"), metrics.get("hazards_possible")
    pageable = metrics.get("async_pageable")
    if observed is None or possible is None:
        yield _unknown(summary, 3, "hazards_observed")
    elif observed:
        yield Finding(3, "hazard_observed", 3.0, {"observed": observed, "possible": possible})
    elif possible:
        yield Finding(3, "hazard_possible", 2.0, {"possible": possible})
    else:
        yield Finding(3, "no_hazard", 0.0, {"wait_ns": metrics.get("buffer_wait_ns")})
    if pageable is None:
        yield _unknown(summary, 3, "async_pageable")
    elif pageable:
        yield Finding(3, "async_copies_of_pageable_memory", 1.0, {"copies": pageable})
    asked, locked = metrics.get("buffer_capacity_bytes"), metrics.get("buffer_reserved_bytes")
    if asked and locked and locked > asked:
        yield Finding(3, "reserved_more_than_asked", 0.0, {"capacity_bytes": asked, "reserved_bytes": locked})


def _padding(summary: Summary) -> Iterator[Finding]:
    metrics = summary.metrics
    tokens = metrics.get("padding_token_share")
    if tokens is None:
        yield _unknown(summary, 4, "padding_token_share")
        return
    waste = metrics.get("padding_time_mean_ns")
    if waste is None:
        yield _unknown(summary, 4, "padding_time_mean_ns")
    else:
        code = "padding_saves_time" if waste < 0 else "padding_costs_time" if waste else "padding_costs_nothing"
        yield Finding(4, code, _of_period(summary, waste), {"token_share": tokens, "mean_ns": waste})
    saving = metrics.get("replay_saving_ns")
    if saving is None:
        yield _unknown(summary, 4, "replay_saving_ns")
    else:
        yield Finding(4, "replay_saves" if saving > 0 else "replay_costs", 0.0, {
            "saving_ns": saving, "padding_ns": metrics.get("padding_time_ns"),
            "graph_hit_share": metrics.get("graph_hit_share"),
        })
