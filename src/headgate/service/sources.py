"""Sources: what they are called, what their rows look like, and rows from outside as rows in slots."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import ConfigError, NotFound
from headgate.service.registry import Registry
from headgate.sql.source_schema import NAME, TIME, TYPES, slot_type
from headgate.sql.source_schema import SourceSchema as Kind

MOST_SLOTS = {"l": 8, "d": 8, "v": 8, "b": 4, "t": 4}
"""Columns of a type that a source can have: the width of the row that all share."""
ALL_SLOTS = [f"{letter}{i}" for letter, most in MOST_SLOTS.items() for i in range(most)]
FIELDS = pa.schema(
    [
        pa.field("source", pa.int32()),
        pa.field(TIME, pa.timestamp("us")),
        *(pa.field(s, slot_type(s)) for s in ALL_SLOTS),
    ]
)
EARLIEST, LATEST = 0, int(datetime(2200, 1, 1, tzinfo=UTC).timestamp() * 1e6)


@dataclass(frozen=True)
class Source:
    """A source. ``delay_us`` is how late its rows may come; ``rate`` is its traffic, as placement counts it."""

    id: int
    name: str
    tenant: str
    kind: Kind
    delay_us: int
    rate: float

    def to_json(self) -> dict[str, Any]:
        """For people and clients."""
        return {
            "name": self.name,
            "columns": dict(self.kind.columns),
            "delay_s": self.delay_us / 1e6,
            "rate": self.rate,
            "owner": self.tenant,
        }


class Sources:
    """Sources by name; numbered from 0 in the order in which they came."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        rows = registry.read("SELECT id, name, tenant, columns, delay_us, rate FROM sources ORDER BY id")
        self.by_name = {r[1]: Source(r[0], r[1], r[2], Kind(json.loads(r[3])), r[4], r[5]) for r in rows}
        self.names = list(self.by_name)
        self.kinds: dict[str, Kind] = {name: one.kind for name, one in self.by_name.items()}

    def __len__(self) -> int:
        return len(self.by_name)

    def add(self, wishes: Sequence[Mapping[str, Any]], tenant: str) -> list[Source]:
        """Make sources known: name, columns, and perhaps delay_s and rate."""
        made = dict[str, Source]()
        for wish in wishes:
            name, kind = str(wish["name"]), Kind(wish["columns"])
            delay_s, rate = float(wish.get("delay_s", 5.0)), float(wish.get("rate", 1.0))
            if not NAME.fullmatch(name):
                raise ConfigError(f"source {name!r}: a name is lower-case letters, digits and _")
            if name in self.by_name or name in made:
                raise ConfigError(f"source {name!r} is there already: give another name")
            if not 0 <= delay_s <= 86_400 or not 0 < rate < 1e12:
                raise ConfigError(
                    f"source {name!r}: delay_s={delay_s:g} is 0 to 86400, rate={rate:g} above 0"
                )
            wide = [s for s in kind.slots.values() if s not in ALL_SLOTS]
            if wide:
                limits = ", ".join(f"{most} {TYPES_OF[letter]}" for letter, most in MOST_SLOTS.items())
                raise ConfigError(f"source {name!r} has too many columns of one type: the most are {limits}")
            made[name] = Source(len(self) + len(made), name, tenant, kind, round(delay_s * 1e6), rate)
        rows = [
            (s.id, s.name, s.tenant, json.dumps(dict(s.kind.columns)), s.delay_us, s.rate)
            for s in made.values()
        ]
        self._registry.write(("INSERT INTO sources VALUES (?, ?, ?, ?, ?, ?)", rows))
        self.by_name |= made
        self.names += made
        self.kinds |= {name: one.kind for name, one in made.items()}
        return list(made.values())

    def get(self, name: str) -> Source:
        """A source by name."""
        if name not in self.by_name:
            raise NotFound(f"there is no source {name!r}")
        return self.by_name[name]

    def delays(self) -> NDArray[np.int64]:
        """Delays by number."""
        return np.array([one.delay_us for one in self.by_name.values()], np.int64)


TYPES_OF = {letter: name for name, (letter, _) in TYPES.items()}


def rows_in_slots(source: Source, events: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Events as rows in slots; ConfigError names the event and the field that is wrong."""
    columns: dict[str, list[Any]] = {slot: [] for slot in source.kind.slots.values()}
    times = list[int]()
    for number, event in enumerate(events):
        if not isinstance(event, dict):
            raise ConfigError(f"event {number} is not an object: send {{'{TIME}': ..., column: value}}")
        unknown = event.keys() - source.kind.columns.keys() - {TIME}
        if unknown:
            raise ConfigError(
                f"event {number} has {sorted(unknown)[0]!r}, which source {source.name!r} does not"
            )
        times.append(_micros(event.get(TIME), number))
        for name, slot in source.kind.slots.items():
            columns[slot].append(_value(event.get(name), source.kind.columns[name], name, number))
    arrays: dict[str, pa.Array] = {
        "source": pa.array(np.full(len(times), source.id, np.int32)),
        TIME: pa.array(times, pa.timestamp("us")),
    }
    return pa.table(arrays | {slot: pa.array(values, slot_type(slot)) for slot, values in columns.items()})


def _micros(value: Any, number: int) -> int:
    """Event time: an ISO date and time (UTC unless it says otherwise), or seconds since 1970."""
    found: float = -1
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value)
            found = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1e6
        except (ValueError, OverflowError):
            found = -1
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found = value * 1e6 if abs(value) < 1e12 else -1
    if not EARLIEST <= found < LATEST:
        raise ConfigError(f"event {number} has {TIME} {value!r}: an ISO date and time, or seconds since 1970")
    return round(found)


def _value(value: Any, kind: str, name: str, number: int) -> Any:
    right = {
        "bigint": isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63,
        "double": isinstance(value, (int, float)) and not isinstance(value, bool),
        "varchar": isinstance(value, str) and len(value) <= 10_000,
        "boolean": isinstance(value, bool),
        "timestamp": isinstance(value, (str, int, float)),
    }[kind]
    if value is None:
        return None
    if not right:
        raise ConfigError(f"event {number} has {name}={str(value)[:50]!r}, which is no {kind}")
    if kind == "timestamp":
        return _micros(value, number)
    return float(value) if kind == "double" else value
