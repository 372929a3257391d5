"""The usual rules of comparison on sequential runs, as the peers apply them: what the simulator is held against."""

from __future__ import annotations

import numpy as np
from scipy import stats

from .simulator import Machine, sequential


def false_alarms(machine: Machine, trials: int, seed: int, effect: float = 0.0) -> dict[str, float]:
    """Per cent of trials in which a rule calls head slower: pooled Mann-Whitney p < .05, median ratio > 5 %."""
    rng = np.random.default_rng(seed)
    slower: dict[str, list[np.ndarray]] = {"mann_whitney": [], "ratio_5": []}
    for size in chunks(trials):
        base, head = (arm.reshape(size, -1) for arm in sequential(machine, size, effect, rng))
        count = base.shape[1]
        ranks = stats.rankdata(np.concatenate([base, head], axis=1), axis=1)
        above = ranks[:, count:].sum(axis=1) - count * (count + 1) / 2
        score = (above - count**2 / 2) / np.sqrt(count**2 * (2 * count + 1) / 12)
        slower["mann_whitney"].append(score > stats.norm.ppf(0.975))
        slower["ratio_5"].append(np.median(head, axis=1) > 1.05 * np.median(base, axis=1))
    return {rule: float(100 * np.concatenate(found).mean()) for rule, found in slower.items()}


def chunks(trials: int, size: int = 250) -> list[int]:
    """Trials in parts that fit into memory."""
    return [min(size, trials - start) for start in range(0, trials, size)]
