"""Section: what padding to captured sizes costs, against what replaying graphs saves."""

from __future__ import annotations

from ...analysis.padding import Padding
from ...analysis.padding_costs import OWN_RUN
from ..document import Block, Cell, Chart, Column, Section, Words
from ..figures.padding import SizePadding, padding_figure
from ..formatting import count, duration, percent
from .cells import count_column, number, percent_column, records, table, us_column
from .dispatch import MODE_WORDS

TITLE = "Padding to captured sizes"


def padding_section(padding: Padding, origin: str) -> Section:
    """The finding, tokens and time by captured size as a chart and as a table."""
    blocks: list[Block] = [Words(headline_words(padding), emphasis=True)]
    if padding.replayed_steps:
        blocks += [_chart(padding, origin), _size_table(padding, origin)]
    return Section("padding", TITLE, tuple(blocks), brief=True, nav="Padding")


def _chart(padding: Padding, origin: str) -> Chart:
    sizes = [
        SizePadding(
            f"{row['size']} {row['mode'] or ''}".strip(), row["steps"], row["tokens"], row["wasted_tokens"],
            None if row["time_waste_ns"] is None else row["time_waste_ns"] / row["steps"],
        )
        for row in records(padding.sizes)
    ]
    title = "Tokens, and mean time lost to padding [µs], by captured size and mode"
    return Chart("padding", title, (("padding", padding_figure(sizes)),), origin=origin)


def _size_table(padding: Padding, origin: str) -> Block:
    body = [
        (
            number(row["size"], "count"), MODE_WORDS.get(row["mode"], str(row["mode"])),
            *(number(row[name], "count") for name in ("steps", "tokens", "wasted_tokens")),
            number(row["token_share"], "fraction"),
            *(number(row[name], "ns", row["reason"]) for name in ("time_waste_ns", "envelope_waste_ns")),
            number(row["time_share"], "fraction", row["reason"]), number(row["replay_saving_ns"], "ns", row["reason"]),
            number(row["other_kernels"], "count", row["reason"] or "the calibration holds no kernel hashes"),
        )
        for row in records(padding.sizes)
    ]
    columns = (
        count_column("size"), Column("ran as"), count_column("steps"), count_column("real tokens"),
        count_column("padding tokens"), percent_column("of the tokens"),
        us_column("time lost", "sum of T(padded) - T(actual) over the steps; negative: the padded size is faster"),
        us_column("against envelope", "the same against the lower monotone envelope of T"),
        percent_column("of the forward"), us_column("saved by replay", "sum of T_eager(actual) - T(padded)"),
        count_column("other kernels", "steps whose real size would have chosen other kernels"),
    )
    source = "replayed after the last step of this run" if padding.origin == OWN_RUN else "from the calibrated curve"
    note = (
        "Token waste and time waste are separate numbers. Time: T(padded) - T(actual) at equal real rows and KV lengths"
        f" {source}, never clamped: a negative figure says that the padded size is the faster one.{_coverage(padding)}"
    )
    return table("Padding by captured size, sums over the counted steps", columns, body, origin, note)


def _coverage(padding: Padding) -> str:
    """Which of the replayed steps the times are about, where that is not all of them."""
    if padding.time_waste_ns is None or padding.timed_steps == padding.replayed_steps:
        return ""
    timed = f"{count(padding.timed_steps)} of {count(padding.replayed_steps)} replayed steps"
    return f" Times cover {timed}: {padding.reason}."


def headline_words(padding: Padding) -> str:
    """The answer to the fourth question."""
    steps = padding.replayed_steps + padding.eager_steps
    if not padding.replayed_steps:
        reason = padding.reason or "no graph was replayed"
        eager = f" All {count(padding.eager_steps)} counted steps ran eagerly." if padding.eager_steps else ""
        return f"Not measured: {reason}.{eager}"
    head = f"{count(padding.replayed_steps)} of {count(steps)} counted steps replayed a graph"
    tokens = "" if padding.token_share is None else f"; {percent(padding.token_share)} of their tokens are padding"
    return f"{head}{tokens}. {_time_words(padding)}"


def _time_words(padding: Padding) -> str:
    waste, saving = padding.time_waste_mean_ns, padding.replay_saving_ns
    if waste is None:
        return f"What that costs in time was not measured: {padding.reason}."
    lost = f"costs {duration(waste)}" if waste >= 0 else f"even saves {duration(-waste)}"
    if saving is None:
        return f"In time padding {lost} a replayed step; what replay saves was not measured: {padding.reason}."
    mean = saving / padding.timed_steps
    verb = f"saves {duration(mean)}" if mean >= 0 else f"costs {duration(-mean)} more"
    return (
        f"In time padding {lost} a replayed step, and replay {verb} of the forward's span on the device a step against"
        " eager launches (padding paid). That span holds the gaps between launches and is not the period: what of it"
        " reaches the period, a run with graph_mode none shows."
    )


def headline_figures(padding: Padding) -> tuple[tuple[str, Cell], ...]:
    """The figures under that sentence."""
    why, steps = padding.reason, padding.timed_steps
    saving = padding.replay_saving_ns
    mean = saving / steps if saving is not None and steps else None
    return (
        ("padding tokens", number(padding.token_share, "fraction", why)),
        ("time lost a step, mean", number(padding.time_waste_mean_ns, "ns", why)),
        ("forward's span saved by replay, mean", number(mean, "ns", why)),
    )
