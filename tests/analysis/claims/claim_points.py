"""Points of claims by hand: turns from a list of values, or from a function of arm, launch, turn and step."""

from collections.abc import Callable, Sequence

from stepscope.analysis.claims.points import ClaimPoint, Turn


def point(arm: str, launch: int, turns: Sequence[Sequence[int | None]], cell: dict | None = None, **more: object):
    """Turns hold periods; `more` holds other series, a list a turn."""
    made = tuple(
        Turn(order, {"period_ns": tuple(values), **{name: tuple(lists[order]) for name, lists in more.items()}})
        for order, values in enumerate(turns)
    )
    return ClaimPoint("E0", cell or {}, arm, launch, made)


def launches(
    value: Callable[[str, int], int], arms: Sequence[str] = ("left", "right"), count: int = 5, cell: dict | None = None
) -> list[ClaimPoint]:
    """Four turns of three equal steps an arm and launch, `value(arm, launch)` ns each."""
    return [
        point(arm, launch, [[value(arm, launch)] * 3] * 4, cell) for launch in range(count) for arm in arms
    ]
