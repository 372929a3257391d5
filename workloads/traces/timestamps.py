"""Timestamps of public traces as exact integers of nanoseconds: no float ever holds one."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal

NS_PER_S = 1_000_000_000
_WALL = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[ T](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:(Z)|([+-])(\d{2})(?::?(\d{2}))?)?", re.ASCII
)
_MAX_NS = 1 << 62  # the distance of any two times stays in int64
_EPOCH_DAY = date(1970, 1, 1).toordinal()


class BadTimestamp(ValueError):
    """A timestamp that is there but cannot be read."""


def wall_time_ns(text: str) -> int:
    """Nanoseconds since 1970 of `2023-11-16 18:17:03.9799600` or `2024-05-12 00:00:00+00:00`.

    The fraction has 0 to 9 digits and may come and go within a file; without a zone the time counts as UTC. Raises
    BadTimestamp for what is no time, or more than 146 years away from 1970.
    """
    match = _WALL.fullmatch(text.strip())
    if match is None:
        raise BadTimestamp(text)
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, _, sign, zone_hours, zone_minutes = match.groups(default="0")[6:]
    if hour > 23 or minute > 59 or second > 60 or int(zone_hours) > 23 or int(zone_minutes) > 59:
        raise BadTimestamp(text)
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise BadTimestamp(text) from error
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    if sign != "0":
        offset = (int(zone_hours) * 60 + int(zone_minutes)) * 60
        seconds += offset if sign == "-" else -offset
    found = seconds * NS_PER_S + int(fraction.ljust(9, "0"))
    if abs(found) >= _MAX_NS:
        raise BadTimestamp(text)
    return found


def scaled_ns(value: object, unit_ns: int) -> int:
    """`value` units of `unit_ns` nanoseconds each, as in `61.114` seconds; what lies below 1 ns is rounded.

    Raises BadTimestamp for what is no number, or more than 146 years away from 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise BadTimestamp(str(value))
    try:
        exact = Decimal(value) * unit_ns
        if not abs(exact) < _MAX_NS:  # before int(): 1e999999 has too many digits to write down
            raise BadTimestamp("out of range")
        return int(exact.to_integral_value())
    except (ArithmeticError, ValueError) as error:
        raise BadTimestamp(f"{value:.60}" if isinstance(value, str) else "no time") from error
