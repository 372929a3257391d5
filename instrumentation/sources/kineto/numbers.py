"""Microseconds as JSON wrote them become whole nanoseconds, exactly: digits are moved, nothing is a float64.

An absolute time of 19 digits has steps of 0.25 µs in float64: sums of such times are wrong by microseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

import numpy as np
import pyarrow as pa

from ..arrays import ABSENT, FURTHEST_NS, LongArray, filled, longs

_LIMIT_NS = FURTHEST_NS
_LIMIT_US = _LIMIT_NS // 1000
_MICRO = pa.decimal128(38, 3)


def nanoseconds(tokens: Sequence[object]) -> LongArray:
    """ints and texts of numbers in µs → ns; ABSENT for what is no number, or none of an age that times have.

    A fraction finer than a nanosecond is rounded.
    """
    if tokens and type(tokens[0]) is int:
        found = _of_ints(tokens)
        if found is not None:
            return found
    kinds = set(map(type, tokens))
    if kinds == {str}:
        return _of_texts(tokens)
    if kinds == {int, str}:
        return _of_texts([str(token) for token in tokens])
    return _one_by_one(tokens)


def _of_ints(tokens: Sequence[object]) -> LongArray | None:
    """None where a token is no int of 64 bits. True and False would pass as 1 and 0."""
    try:
        values = longs(tokens, len(tokens))
    except struct.error:
        return None
    if any(type(tokens[place]) is bool for place in np.flatnonzero(values >> 1 == 0).tolist()):
        return None
    fits = (values < _LIMIT_US) & (values > -_LIMIT_US)
    return values * 1000 if fits.all() else np.where(fits, np.where(fits, values, 0) * 1000, ABSENT)


def _of_texts(tokens: Sequence[object]) -> LongArray:
    """Arrow reads decimals of three places; the low half of its 128 bits is the number of nanoseconds."""
    try:
        decimals = pa.array(tokens, pa.string()).cast(_MICRO)
    except pa.ArrowInvalid:
        return _one_by_one(tokens)
    halves = np.frombuffer(decimals.buffers()[1], dtype=np.int64)[: 2 * len(tokens)].reshape(-1, 2)
    low, high = halves[:, 0], halves[:, 1]
    fits = (high == low >> 63) & (low < _LIMIT_NS) & (low > -_LIMIT_NS)
    return np.where(fits, low, ABSENT)


def _one_by_one(tokens: Sequence[object]) -> LongArray:
    found = filled(len(tokens))
    for place, token in enumerate(tokens):
        found[place] = _single(token)
    return found


def _single(token: object) -> int:
    if isinstance(token, bool) or not isinstance(token, (int, str)):
        return ABSENT
    try:
        value = Decimal(token)
        if not value.is_finite() or abs(value) >= _LIMIT_US:
            return ABSENT
        return int(value.scaleb(3).to_integral_value(ROUND_HALF_EVEN))
    except (InvalidOperation, ValueError):
        return ABSENT
