"""Parts of dates and timestamps in UTC, over the whole range of their types.

Arrow's own functions are exact only for years of 16 bits, and Spark's dates go further.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
DAY_US = 86_400_000_000
UNITS_US = {"second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000, "day": DAY_US}
"""The units to which a timestamp is truncated here."""
_EPOCH = date(1970, 1, 1)


def _ints(array: pa.Array, kind: pa.DataType) -> Numbers:
    found: Numbers = array.cast(kind).fill_null(0).to_numpy(zero_copy_only=False)
    return found.astype(np.int64, copy=False)


def micros_of(array: pa.Array) -> Numbers:
    """Timestamps as microseconds since 1970; 0 for nulls."""
    return _ints(array, pa.int64())


def days_of(array: pa.Array) -> Numbers:
    """Dates or timestamps as days since 1970; 0 for nulls."""
    return _ints(array, pa.int32()) if pa.types.is_date32(array.type) else micros_of(array) // DAY_US


def _civil(array: pa.Array) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Year, month, day, and day of a year that begins in March, in the Gregorian calendar."""
    shifted = days_of(array) + 719_468  # since 0000-03-01
    era = shifted // 146_097
    in_era = shifted - era * 146_097
    of_era = (in_era - in_era // 1460 + in_era // 36_524 - in_era // 146_096) // 365
    of_year = in_era - (365 * of_era + of_era // 4 - of_era // 100)
    march = (5 * of_year + 2) // 153
    month = march + 3 - 12 * (march >= 10)
    return of_era + era * 400 + (month <= 2), month, of_year - (153 * march + 2) // 5 + 1, of_year


def _day_of_year(array: pa.Array) -> Numbers:
    year, month, _, from_march = _civil(array)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    return np.where(month <= 2, from_march - 305, from_march + 60 + leap)


PARTS: dict[str, Callable[[pa.Array], Any]] = {
    "year": lambda array: _civil(array)[0],
    "quarter": lambda array: (_civil(array)[1] + 2) // 3,
    "month": lambda array: _civil(array)[1],
    "day": lambda array: _civil(array)[2],
    "dayofyear": _day_of_year,
    "dayofweek": lambda array: (days_of(array) + 4) % 7 + 1,
    "weekday": lambda array: (days_of(array) + 3) % 7,
    "hour": lambda array: micros_of(array) // UNITS_US["hour"] % 24,
    "minute": lambda array: micros_of(array) // UNITS_US["minute"] % 60,
    "second": lambda array: micros_of(array) // UNITS_US["second"] % 60,
}
"""Spark's functions of a date or timestamp; the last three are of a timestamp."""
UNIX: dict[str, Callable[[Numbers], Numbers]] = {
    "unix_seconds": lambda micros: micros // 1_000_000,
    "unix_millis": lambda micros: micros // 1000,
    "unix_micros": lambda micros: micros,
}


def truncated(micros: Numbers, unit: str) -> Numbers:
    """The begin of the second, minute, hour or day."""
    floor = micros - micros % UNITS_US[unit]
    if bool((floor > micros).any()):
        raise ArithmeticError("the begin of the unit is before the first timestamp")
    return floor


def date_value(text: str) -> date | None:
    """A date that is written out, YYYY-MM-DD; None for another text."""
    try:
        return date.fromisoformat(text) if len(text) == 10 and text[4] == text[7] == "-" else None
    except ValueError:
        return None


def timestamp_micros(text: str) -> int | None:
    """A date, or a date and time to at most the microsecond without a zone, as microseconds since 1970."""
    day, sep, time = text[:10], text[10:11], text[11:]
    found = date_value(day)
    if found is None or sep not in ("", " ", "T"):
        return None
    micros = (found - _EPOCH).days * DAY_US
    if not sep:
        return micros
    whole, dot, fraction = time.partition(".")
    digits = fraction.isascii() and fraction.isdecimal() and len(fraction) <= 6
    if len(whole) != 8 or (dot and not digits):
        return None
    try:
        at = datetime.strptime(whole, "%H:%M:%S")
    except ValueError:
        return None
    seconds = at.hour * 3600 + at.minute * 60 + at.second
    return micros + seconds * 1_000_000 + int((fraction or "0").ljust(6, "0"))
