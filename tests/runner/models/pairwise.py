"""Covering arrays of strength two: few configurations in which every two values that go together stand together.

What goes together is asked of a predicate, which says why it refuses. A pair counts as impossible when nothing was
found that it could stand in: each attempt mends what the refusal names, and leaves the pair alone.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product

Values = dict[str, object]
Pair = tuple[tuple[str, object], tuple[str, object]]
Refusal = Callable[[Values], str | None]

ATTEMPTS, MENDS, STRIKES = 12, 24, 3
CANDIDATES = 6


def pairs_of(values: Mapping[str, object]) -> set[Pair]:
    """All pairs that stand in a configuration, names in order."""
    return set(combinations(sorted(values.items(), key=lambda entry: entry[0]), 2))


def all_pairs(factors: Mapping[str, Sequence[object]]) -> list[Pair]:
    """Every two values of two factors."""
    return [
        ((first, one), (second, other))
        for first, second in combinations(sorted(factors), 2)
        for one, other in product(factors[first], factors[second])
    ]


class CoveringArray:
    """`rows` cover all pairs but `impossible`, which says of each what was refused most often. Seeded."""

    def __init__(self, factors: Mapping[str, Sequence[object]], refusal: Refusal, seed: int = 0) -> None:
        self._factors, self._refusal, self._dice = factors, refusal, random.Random(seed)
        self.rows: list[Values] = []
        self.impossible: dict[Pair, str] = {}
        open_pairs = dict.fromkeys(all_pairs(factors))
        hopeless = {(name, value): reason for name, value, reason in self._hopeless_values()}
        while open_pairs:
            pair = next(iter(open_pairs))
            dead = [hopeless[entry] for entry in pair if entry in hopeless]
            found = None if dead else self._row(pair, open_pairs)
            if found is None:
                self.impossible[pair] = dead[0] if dead else self._reason
                del open_pairs[pair]
                continue
            self.rows.append(found)
            for covered in pairs_of(found):
                open_pairs.pop(covered, None)

    def _hopeless_values(self):
        for name, values in self._factors.items():
            for value in values:
                if self._complete({name: value}, {}) is None:
                    yield name, value, self._reason

    def _row(self, pair: Pair, wanted: Mapping[Pair, None]) -> Values | None:
        """Of a few configurations with the pair the one that covers most of what is wanted."""
        best, most = None, -1
        for _ in range(CANDIDATES):
            made = self._complete(dict(pair), wanted)
            if made is None:
                return best
            count = sum(covered in wanted for covered in pairs_of(made))
            if count > most:
                best, most = made, count
        return best

    def _complete(self, fixed: Values, wanted: Mapping[Pair, None]) -> Values | None:
        """A configuration that is not refused with the values of `fixed`; None, and `_reason`, after many attempts, or
        when refusals keep naming nothing but what is fixed.
        """
        reasons: Counter[str] = Counter()
        strikes = 0
        for _ in range(ATTEMPTS):
            if strikes >= STRIKES:
                break
            values = self._greedy(fixed, wanted)
            for _ in range(MENDS):
                reason = self._refusal(values)
                if reason is None:
                    return values
                reasons[reason] += 1
                named = [name for name in self._factors if name in reason and name not in fixed]
                if not named:
                    strikes += 1
                    reasons[reason] += ATTEMPTS * MENDS  # the pair's own
                    break
                name = self._dice.choice(named)
                values[name] = self._dice.choice(self._factors[name])
        self._reason = reasons.most_common(1)[0][0]
        return None

    def _greedy(self, fixed: Values, wanted: Mapping[Pair, None]) -> Values:
        """Factors in a random order, each with the value that makes most wanted pairs with those before it."""
        values = dict(fixed)
        names = [name for name in self._factors if name not in fixed]
        self._dice.shuffle(names)
        for name in names:
            before = [entry for entry in values.items() if entry[0] < name]  # a pair has its names in order
            behind = [entry for entry in values.items() if entry[0] > name]

            def gain(value: object, name: str = name, before: list = before, behind: list = behind) -> float:
                own = (name, value)
                made = sum((entry, own) in wanted for entry in before) + sum((own, entry) in wanted for entry in behind)
                return made + self._dice.random() / 2

            values[name] = max(self._factors[name], key=gain)
        return values
