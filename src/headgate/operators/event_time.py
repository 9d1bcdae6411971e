"""Event time: a stage's clock is the newest timestamp of its rows, minus the delay that rows may have.

As in Spark, the *watermark* of batch n comes from the rows of the batches before it; at the end of
batch n everything up to the watermark is closed. A row is *late* if what it belongs to was closed
before its batch: `closed` is the watermark of batch n - 1. Neither ever goes back, and both are
committed with the batch.

One clock that is years ahead would close every window. So timestamps that are *far ahead* of the others
(see `headgate.far_ahead`) are counted, and do not move the watermark.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from headgate.errors import ConfigError, UnsupportedType
from headgate.far_ahead import NEVER, merged, newest_and_far_ahead

SECOND = 1_000_000
COMPLETE = (1 << 62) - 1
"""The watermark of an input that is complete: later than any event, and just before `FOREVER`."""
_UNITS = {
    "us": 1,
    "microsecond": 1,
    "ms": 1000,
    "millisecond": 1000,
    "s": SECOND,
    "second": SECOND,
    "m": 60 * SECOND,
}
_UNITS |= {"min": 60 * SECOND, "minute": 60 * SECOND, "h": 3600 * SECOND, "hour": 3600 * SECOND}
_UNITS |= {"d": 86400 * SECOND, "day": 86400 * SECOND, "w": 7 * 86400 * SECOND, "week": 7 * 86400 * SECOND}


def parse_duration(text: str, what: str, *, least: int = 0) -> int:
    """Microseconds from "10 minutes", "1.5 h" or "1 hour 30 minutes"; `what` names the setting in the error.

    >>> parse_duration("10 minutes", "delay"), parse_duration("1 hour 30 s", "delay")
    (600000000, 3630000000)
    """
    parts = re.findall(r"\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z]+)", text) if isinstance(text, str) else []
    whole = "".join(f"{n}{u}" for n, u in parts)
    units = [_UNITS.get(u.lower()) or _UNITS.get(u.lower().rstrip("s")) for _, u in parts]
    if not parts or None in units or whole != re.sub(r"\s", "", text):
        raise ConfigError(
            f"{what}={text!r} is not a duration; write '10 minutes', '30 s' or '1 hour 30 minutes'"
        )
    total = round(sum(float(n) * (unit or 0) for (n, _), unit in zip(parts, units, strict=True)))
    if total < least:
        raise ConfigError(f"{what}={text!r} is shorter than {least} us")
    return total


@dataclass(frozen=True)
class EventTime:
    """The column of a row's event time, how late rows may be and how far ahead; durations in microseconds.

    With a `source` column (0, 1, ...) every source has its own delay, and the watermark is that
    of the slowest source.
    """

    column: str
    delays: tuple[int, ...]
    ahead: int
    source: str | None = None

    def check(self, schema: pa.Schema, what: str) -> None:
        """Refuse a column that is not a timestamp."""
        kind = schema.field(self.column).type
        if not pa.types.is_timestamp(kind) or kind.unit != "us":
            raise UnsupportedType(
                f"{what}: the time of a row is a timestamp, but {self.column!r} is {kind}; cast it"
            )

    def fingerprint(self) -> list[Any]:
        """JSON-ready identity."""
        return [self.column, list(self.delays), self.ahead]


@dataclass(frozen=True)
class Clock:
    """What a stage knows of event time before a batch."""

    newest: tuple[int, ...] = (NEVER,)
    watermark: int = NEVER
    closed: int = NEVER
    counts: Mapping[str, int] = field(default_factory=dict)
    """Rows so far that could not be used, by reason (late, no event time); and rows that were far ahead,
    which were used."""

    @classmethod
    def start(cls, event_time: EventTime | None) -> Clock:
        """Before the first batch."""
        return cls(newest=(NEVER,) * (len(event_time.delays) if event_time else 0))

    def after(self, event_time: EventTime | None, seen: Iterable[Mapping[str, Any]]) -> Clock:
        """The clock after a batch, from what each of its channels has `seen`."""
        seen = list(seen)
        counts = Counter(self.counts)
        for of_channel in seen:
            counts.update(of_channel["aside"])
        if event_time is None:
            return replace(self, counts=dict(counts))
        newest = list(self.newest)
        for source, known in enumerate(self.newest):
            spans = merged(s["spans"].get(str(source), {}) for s in seen)
            newest[source], far_ahead = newest_and_far_ahead(known, spans, event_time.ahead)
            counts.update({"far ahead": far_ahead} if far_ahead else {})
        pairs = zip(newest, event_time.delays, strict=True)
        reached = min(new - delay if new > NEVER else NEVER for new, delay in pairs)
        return Clock(tuple(newest), max(self.watermark, reached), self.watermark, dict(counts))

    def complete(self) -> Clock:
        """The clock of an input that is complete: everything that is open is due."""
        return replace(self, watermark=COMPLETE)

    def to_json(self) -> dict[str, Any]:
        """JSON-native values."""
        return {
            "newest": list(self.newest),
            "watermark": self.watermark,
            "closed": self.closed,
            "counts": dict(self.counts),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Clock:
        """Read what `to_json` wrote."""
        return cls(**{**data, "newest": tuple(data["newest"])})
