"""A machine that makes step times, for tests of the gate. It knows nothing of the gate.

Log scale, in layers: an offset of each process launch (alternating does not remove it), a drift that comes back
(Ornstein-Uhlenbeck), contention that is on or off, a clock with two states, correlated jitter of the steps, and a
right tail. Drift, contention and clock belong to the machine: both arms meet them. The lengths of the states and the
jitter are chosen so that the usual rules of comparison show the false-alarm rates that are known of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

Floats = npt.NDArray[np.float64]
STEP_S = 0.020
BLOCK_STEPS = 60
BLOCK_S = STEP_S * BLOCK_STEPS


@dataclass(frozen=True, slots=True)
class OnOff:
    """A state that is on for `share` of the time, `effect` (log) while on, forgotten after `memory_s` on average."""

    share: float
    effect: float
    memory_s: float


@dataclass(frozen=True, slots=True)
class Machine:
    """Standard deviations and effects are fractions of a step."""

    name: str
    launch_sd: float
    drift_sd: float
    states: tuple[OnOff, ...] = ()
    drift_memory_s: float = 60.0
    jitter_sd: float = 0.008
    jitter_rho: float = 0.5
    tail_share: float = 0.03
    tail_scale: float = 0.12


QUIET = Machine("quiet", 0.003, 0.003, jitter_sd=0.009)
SHARED = Machine("shared", 0.007, 0.02, (OnOff(0.10, 0.08, 4.0), OnOff(0.15, 0.04, 120.0)))
NOISY = Machine("noisy", 0.015, 0.04, (OnOff(0.25, 0.12, 3.0),))
MACHINES = (QUIET, SHARED, NOISY)


@dataclass(frozen=True, slots=True)
class Plan:
    """Blocks of one launch in time: `order` per pair, "AB" or "BA"; `ramp` is what the launch gains to its end."""

    launches: int = 5
    pairs: int = 6
    fixed_order: bool = False
    ramp: float = 0.0
    gap_s: float = 6.0

    @property
    def head_first(self) -> npt.NDArray[np.bool_]:
        """[pairs]: A B | B A | A B ..., or always A B."""
        return np.zeros(self.pairs, bool) if self.fixed_order else np.arange(self.pairs) % 2 == 1


def surroundings(machine: Machine, trials: int, times_s: Floats, rng: np.random.Generator) -> Floats:
    """[trials, len(times_s)] log level of drift, contention and clock at ascending times."""
    steps = np.diff(times_s)
    level = np.empty((trials, len(times_s)))
    drift = rng.standard_normal(trials)
    on = [rng.random(trials) < state.share for state in machine.states]
    for index in range(len(times_s)):
        if index:
            keep = np.exp(-steps[index - 1] / machine.drift_memory_s)
            drift = keep * drift + np.sqrt(1 - keep**2) * rng.standard_normal(trials)
            for number, state in enumerate(machine.states):
                redraw = rng.random(trials) > np.exp(-steps[index - 1] / state.memory_s)
                on[number] = np.where(redraw, rng.random(trials) < state.share, on[number])
        level[:, index] = machine.drift_sd * drift
        for state, active in zip(machine.states, on, strict=True):
            level[:, index] += state.effect * active
    return level


def steps_of(machine: Machine, level: Floats, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """[..., BLOCK_STEPS] step times in milliseconds of blocks whose log level is `level` [...]."""
    shape = (*level.shape, BLOCK_STEPS)
    white = rng.standard_normal(shape, dtype=np.float32) * np.float32(np.sqrt(1 - machine.jitter_rho**2))
    white[..., 0] /= np.sqrt(1 - machine.jitter_rho**2)
    noise = machine.jitter_sd * lfilter([1.0], [1.0, -machine.jitter_rho], white, axis=-1)
    late = rng.random(shape, dtype=np.float32) < machine.tail_share
    noise[late] += machine.tail_scale * rng.standard_exponential(int(late.sum()))
    return np.exp(noise + level[..., None]).astype(np.float32) * np.float32(STEP_S * 1e3)


def sequential(
    machine: Machine, trials: int, effect: float, rng: np.random.Generator, *, blocks: int = 15, gap_s: float = 6.0
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Steps [trials, blocks, BLOCK_STEPS] of all of base, then all of head, each one launch."""
    times = np.arange(2 * blocks) * BLOCK_S + np.repeat([0.0, gap_s], blocks)
    level = surroundings(machine, trials, times, rng)
    offset = machine.launch_sd * rng.standard_normal((trials, 2)) + np.array([0.0, np.log1p(effect)])
    steps = steps_of(machine, level + np.repeat(offset, blocks, axis=1), rng)
    return steps[:, :blocks], steps[:, blocks:]


def paired(
    machine: Machine, trials: int, effect: float, rng: np.random.Generator, plan: Plan = Plan(), points: int = 1
) -> tuple[Floats, Floats]:
    """Block medians [trials, points, launches, pairs] of base and head, both resident, in turns, in milliseconds.

    The points of a launch are measured one after another and share the offsets of its two processes.
    """
    count = points * plan.pairs * 2
    times = np.concatenate([
        launch * (count * BLOCK_S + plan.gap_s) + np.arange(count) * BLOCK_S for launch in range(plan.launches)
    ])
    level = surroundings(machine, trials, times, rng).reshape(trials, plan.launches, points, plan.pairs, 2)
    level += plan.ramp * np.linspace(0, 1, count).reshape(points, plan.pairs, 2)
    first_is_head = plan.head_first
    base = np.where(first_is_head, level[..., 1], level[..., 0])
    head = np.where(first_is_head, level[..., 0], level[..., 1]) + np.log1p(effect)
    offset = machine.launch_sd * rng.standard_normal((2, trials, plan.launches, 1, 1))
    medians = [np.median(steps_of(machine, arm, rng), axis=-1) for arm in (base + offset[0], head + offset[1])]
    swapped = [np.swapaxes(arm, 1, 2).astype(np.float64) for arm in medians]
    return swapped[0], swapped[1]
