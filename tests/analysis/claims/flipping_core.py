"""Launches on a core that flips between two speeds, as those of the measured machines do, with a known truth."""

import random
from bisect import bisect
from collections.abc import Mapping

from stepscope.analysis.claims.points import ClaimPoint, Turn

STAGE = "build_indices_ns"
TURN_S, STAY_S = 0.02, (0.1, 0.5)
"""A turn of an arm, and how long the core stays at a speed."""
GAUGE_SLOWED, SPIKES = 1.9, 0.03


def flips(draw: random.Random, slowed_share: float, until_s: float) -> list[tuple[float, bool]]:
    """(from when on, whether slowed), for one launch."""
    found, now, slowed = [], 0.0, draw.random() < slowed_share
    while now < until_s:
        found.append((now, slowed))
        weight = slowed_share if slowed else 1 - slowed_share
        now, slowed = now + draw.uniform(*STAY_S) * max(0.2, 2 * weight), not slowed
    return found


def slowed_at(core: list[tuple[float, bool]], when_s: float) -> bool:
    """The core's speed at a time."""
    return core[bisect(core, (when_s, True)) - 1][1]


def flipping_launches(
    seed: int, levels_ns: Mapping[str, float], factors: Mapping[str, float], slowed_share: float = 0.5,
    launches: int = 5, rounds: int = 16, series: str = STAGE, wobble: float = 0.01, behind: float = 1.0,
) -> list[ClaimPoint]:  # fmt: skip
    """Two arms in turns A B B A: a level each at full speed, a factor each on a slowed core, and spikes.

    `behind` is by how much the second arm's turns that do not begin a round are slower.
    """
    draw, arms, found = random.Random(seed), list(levels_ns), []
    for launch in range(launches):
        core = flips(draw, slowed_share, 2 * rounds * TURN_S + 1)
        own = {arm: levels_ns[arm] * draw.gauss(1, wobble) for arm in arms}
        turns: dict[str, list[Turn]] = {arm: [] for arm in arms}
        for order in range(2 * rounds):
            arm = arms[order % 2 if order // 2 % 2 == 0 else 1 - order % 2]
            begin, steps = order * TURN_S, []
            late = behind if arm == arms[1] and order % 2 else 1.0
            for step in range(5):
                slow = slowed_at(core, begin + TURN_S * (step + 1) / 6)
                spike = draw.uniform(1.2, 3) if draw.random() < SPIKES else 1
                steps.append(round(own[arm] * late * (factors[arm] if slow else 1) * spike * draw.gauss(1, 0.03)))
            pace = max(
                (GAUGE_SLOWED if slowed_at(core, when) else 1.03) * draw.gauss(1, 0.03)
                for when in (begin, begin + TURN_S)
            )
            turns[arm].append(Turn(order, {series: tuple(steps)}, pace))
        found += [ClaimPoint("E0", {}, arm, launch, tuple(turns[arm])) for arm in arms]
    return found
