"""The columns of a source, and the slots in which they are sent.

The rows of all sources go through one exchange, so they share one wide row. A column takes the next
free *slot* of its type (`l0`, `d0`, `d1`, `v0`...). So two sources with two doubles each use the
same two slots, whatever the names are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from headgate.errors import ConfigError

TIME = "time"
TYPES: dict[str, tuple[str, pa.DataType]] = {
    "bigint": ("l", pa.int64()),
    "double": ("d", pa.float64()),
    "varchar": ("v", pa.string()),
    "boolean": ("b", pa.bool_()),
    "timestamp": ("t", pa.timestamp("us")),
}
LETTERS = {letter: (name, kind) for name, (letter, kind) in TYPES.items()}
ALIASES = {
    "long": "bigint", "int": "bigint", "integer": "bigint", "float": "double", "real": "double",
    "string": "varchar", "text": "varchar", "bool": "boolean",
}  # fmt: skip
NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")

Order = tuple[tuple[str, str], ...]
"""The columns of a schema and their slots, in order."""


@dataclass(frozen=True, eq=False)
class SourceSchema:
    """Columns by name and type, beside the event time that every source has.

    >>> SourceSchema({"temp": "double", "city": "string"}).slots
    {'temp': 'd0', 'city': 'v0'}
    """

    columns: Mapping[str, str]

    def __post_init__(self) -> None:
        columns = {}
        for name, kind in self.columns.items():
            if not NAME.fullmatch(name) or name == TIME:
                raise ConfigError(
                    f"column {name!r}: a name has lower-case letters, digits and _, and is not {TIME!r}, which every source has"
                )
            plain = ALIASES.get(str(kind).lower(), str(kind).lower())
            if plain not in TYPES:
                raise ConfigError(f"column {name!r} has type {kind!r}; the types are {', '.join(TYPES)}")
            columns[name] = plain
        if not columns:
            raise ConfigError("a source has at least one column beside its time")
        object.__setattr__(self, "columns", columns)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, SourceSchema) and self.order == other.order)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.order)

    @cached_property
    def order(self) -> Order:
        """Equal for equal schemas."""
        return tuple(self.slots.items())

    @cached_property
    def signature(self) -> str:
        """The same as a text, which is quickly compared."""
        return ",".join(f"{name} {slot}" for name, slot in self.order)

    @cached_property
    def slots(self) -> dict[str, str]:
        """Column to slot."""
        used: Counter[str] = Counter()
        slots = {}
        for name, kind in self.columns.items():
            letter = TYPES[kind][0]
            slots[name] = f"{letter}{used[letter]}"
            used[letter] += 1
        return slots


def slot_type(slot: str) -> pa.DataType:
    """The Arrow type of a slot."""
    return LETTERS[slot[0]][1]
