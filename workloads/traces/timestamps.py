"""Timestamps of public traces as exact integers of nanoseconds: no float ever holds one."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal, InvalidOperation

NS_PER_S = 1_000_000_000
_WALL = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[ T](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:(Z)|([+-])(\d{2}):?(\d{2}))?", re.ASCII
)
_EPOCH_DAY = date(1970, 1, 1).toordinal()


class BadTimestamp(ValueError):
    """A timestamp that is there but cannot be read."""


def wall_time_ns(text: str) -> int:
    """Nanoseconds since 1970 of `2023-11-16 18:17:03.9799600` or `2024-05-12 00:00:00+00:00`.

    The fraction has 0 to 9 digits and may come and go within a file; without a zone the time counts as UTC.
    """
    match = _WALL.fullmatch(text.strip())
    if match is None:
        raise BadTimestamp(text)
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, _, sign, zone_hours, zone_minutes = match.groups()[6:]
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise BadTimestamp(text) from error
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    if sign is not None:
        offset = (int(zone_hours) * 60 + int(zone_minutes)) * 60
        seconds += offset if sign == "-" else -offset
    return seconds * NS_PER_S + int((fraction or "").ljust(9, "0"))


def scaled_ns(value: object, unit_ns: int) -> int:
    """`value` units of `unit_ns` nanoseconds each, as in `61.114` seconds; what lies below 1 ns is rounded."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise BadTimestamp(str(value))
    try:
        exact = Decimal(value) * unit_ns
        return int(exact.to_integral_value())
    except (InvalidOperation, ValueError, OverflowError) as error:
        raise BadTimestamp(str(value)) from error
