"""Sources: their names, their columns, and how events become rows in slots.

All sources share one row: source number, event time, and a few *slots* of each type. A column of a source takes the next
free slot of its type (`headgate.sql.kind`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import AlreadyExists, ConfigError, NotFound, QuotaExceeded
from headgate.service.registry import Registry, damaged
from headgate.sql.source_schema import NAME, TIME, TYPES, slot_type
from headgate.sql.source_schema import SourceSchema as Kind

SLOTS_PER_TYPE = {"l": 8, "d": 8, "v": 8, "b": 4, "t": 4}
"""How many columns of each type a source can have: the width of the shared row."""
ALL_SLOTS = [f"{letter}{i}" for letter, count in SLOTS_PER_TYPE.items() for i in range(count)]
LARGEST = int(sys.float_info.max)
"""The largest number that a double holds."""
LONGEST_TEXT = 10_000
"""Characters of a text in an event."""
EARLIEST, LATEST = 0, int(datetime(2200, 1, 1, tzinfo=UTC).timestamp() * 1e6)


@dataclass(frozen=True)
class Source:
    """A source. `delay_us` is how late its rows may arrive; `rate` is its traffic in the units of placement."""

    id: int
    name: str
    tenant: str
    kind: Kind
    delay_us: int
    rate: float

    def to_json(self) -> dict[str, Any]:
        """Plain data, as the HTTP API shows it."""
        return {
            "name": self.name,
            "columns": dict(self.kind.columns),
            "delay_s": self.delay_us / 1e6,
            "rate": self.rate,
            "owner": self.tenant,
        }


class Sources:
    """The sources, by name; numbered from 0 in the order of their declaration."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        rows = registry.read("SELECT id, name, tenant, columns, delay_us, rate FROM sources ORDER BY id")
        if [row[0] for row in rows] != list(range(len(rows))):
            raise damaged("its sources are not numbered from 0 without gaps")
        self.by_name = {r[1]: Source(r[0], r[1], r[2], Kind(json.loads(r[3])), r[4], r[5]) for r in rows}
        self.names = list(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def add(self, declarations: Sequence[Mapping[str, Any]], tenant: str) -> list[Source]:
        """Declare sources, all or none. A declaration has name, columns, and optionally delay_s and rate."""
        added = dict[str, Source]()
        for declared in declarations:
            name, kind = str(declared["name"]), Kind(declared["columns"])
            delay_s, rate = float(declared.get("delay_s", 5.0)), float(declared.get("rate", 1.0))
            if not NAME.fullmatch(name):
                raise ConfigError(f"source name {name!r}: use lower-case letters, digits and _")
            if name in self.by_name or name in added:
                raise AlreadyExists(f"source {name!r} already exists: choose another name")
            if not 0 <= delay_s <= 86_400 or not 0 < rate < 1e12:
                raise ConfigError(
                    f"source {name!r}: delay_s must be 0 to 86400 and rate above 0, not {delay_s:g} and {rate:g}"
                )
            if not set(kind.slots.values()) <= set(ALL_SLOTS):
                limits = ", ".join(
                    f"{count} {TYPE_OF_LETTER[letter]}" for letter, count in SLOTS_PER_TYPE.items()
                )
                raise ConfigError(f"source {name!r} has too many columns of one type: at most {limits}")
            added[name] = Source(len(self) + len(added), name, tenant, kind, round(delay_s * 1e6), rate)
        rows = [
            (s.id, s.name, s.tenant, json.dumps(dict(s.kind.columns)), s.delay_us, s.rate)
            for s in added.values()
        ]
        self._registry.write(("INSERT INTO sources VALUES (?, ?, ?, ?, ?, ?)", rows))
        self.by_name |= added
        self.names += added
        return list(added.values())

    def check_room(self, tenant: str, more: int, limit: int) -> None:
        """Refuse more sources of a tenant than it may have."""
        have = sum(source.tenant == tenant for source in self.by_name.values())
        if have + more > limit:
            raise QuotaExceeded(
                f"tenant {tenant!r} has {have} sources and declares {more} more, but at most {limit} are allowed "
                "(the limit is sources): declare fewer"
            )

    def of_tenant(self, tenant: str) -> list[Source]:
        """The sources that belong to a tenant."""
        return [source for source in self.by_name.values() if source.tenant == tenant]

    def get(self, name: str) -> Source:
        """Find a source by name."""
        if name not in self.by_name:
            raise NotFound(f"there is no source {name!r}")
        return self.by_name[name]

    def owner_of(self, number: int) -> str:
        """Whose source has this number. Rows of a source that is not known are nobody's, and nobody reads them."""
        return self.by_name[self.names[number]].tenant if 0 <= number < len(self.names) else ""

    def delays_us(self) -> NDArray[np.int64]:
        """The delay of every source, by its number."""
        return np.array([source.delay_us for source in self.by_name.values()], np.int64)


TYPE_OF_LETTER = {letter: name for name, (letter, _) in TYPES.items()}


def rows_in_slots(source: Source, events: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Turn events into rows in slots; ConfigError names the event and the field that is wrong."""
    columns: dict[str, list[Any]] = {slot: [] for slot in source.kind.slots.values()}
    times = list[int]()
    for number, event in enumerate(events):
        if not isinstance(event, dict):
            raise ConfigError(f"event {number} is not an object: send {{'{TIME}': ..., column: value}}")
        unknown = event.keys() - source.kind.columns.keys() - {TIME}
        if unknown:
            raise ConfigError(
                f"event {number} has {sorted(unknown)[0]!r}, which is not a column of source {source.name!r}"
            )
        times.append(_microseconds(event.get(TIME), number))
        for name, slot in source.kind.slots.items():
            columns[slot].append(_value(event.get(name), source.kind.columns[name], name, number))
    arrays: dict[str, pa.Array] = {
        "source": pa.array(np.full(len(times), source.id, np.int32)),
        TIME: pa.array(times, pa.timestamp("us")),
    }
    return pa.table(arrays | {slot: pa.array(values, slot_type(slot)) for slot, values in columns.items()})


def _microseconds(value: Any, number: int) -> int:
    """Read an event time: an ISO date and time (UTC if it names no zone), or seconds since 1970."""
    us: float = -1
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value)
            us = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1e6
        except (ValueError, OverflowError):
            us = -1
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        us = value * 1e6 if abs(value) < 1e12 else -1
    if not EARLIEST <= us < LATEST:
        raise ConfigError(
            f"event {number} has {TIME} {_shown(value)}: send an ISO date and time, or seconds since 1970, from the year 1970 to "
            "2199"
        )
    return round(us)


def _value(value: Any, kind: str, name: str, number: int) -> Any:
    if value is None:
        return None
    if not _is_of(value, kind):
        if kind == "varchar" and isinstance(value, str) and len(value) > LONGEST_TEXT:
            raise ConfigError(
                f"event {number} has {len(value)} characters in {name!r}: a text has at most {LONGEST_TEXT}"
            )
        raise ConfigError(f"event {number} has {name}={_shown(value)}, which is not a {kind}")
    if kind == "timestamp":
        return _microseconds(value, number)
    return float(value) if kind == "double" else value


def _shown(value: Any) -> str:
    return "a list or an object" if isinstance(value, (list, dict)) else repr(value)[:50]


def _is_of(value: Any, kind: str) -> bool:
    """Whether a value of JSON is one of a type."""
    if isinstance(value, bool) or kind == "boolean":
        return isinstance(value, bool) and kind == "boolean"
    if kind == "varchar":
        return isinstance(value, str) and len(value) <= LONGEST_TEXT and is_text(value)
    if kind == "bigint":
        return isinstance(value, int) and -(1 << 63) <= value < 1 << 63
    if kind == "timestamp":
        return isinstance(value, (str, int, float))
    return isinstance(value, float) or (isinstance(value, int) and -LARGEST <= value <= LARGEST)


def is_text(value: str) -> bool:
    """Whether a text can be stored: JSON can bring half of a character, which UTF-8 cannot hold."""
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
