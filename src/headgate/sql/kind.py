"""What a source's rows look like, and the slots that they travel in.

Rows of all sources go through one exchange, so they share one wide row. A column takes the next free *slot* of its type
(`l0`, `d0`, `d1`, `v0`...), so two sources that have two doubles each travel in the same two slots, whatever the names.
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
_ALIASES = {
    "long": "bigint", "int": "bigint", "integer": "bigint", "float": "double", "real": "double",
    "string": "varchar", "text": "varchar", "bool": "boolean",
}  # fmt: skip
NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, eq=False)
class Kind:
    """Columns by name and type, beside the event time that every source has.

    >>> Kind({"temp": "double", "city": "string"}).slots
    {'temp': 'd0', 'city': 'v0'}
    """

    columns: Mapping[str, str]

    def __post_init__(self) -> None:
        found = {}
        for name, kind in self.columns.items():
            if not NAME.fullmatch(name) or name == TIME:
                raise ConfigError(
                    f"column {name!r}: a name is lower-case letters, digits and _, and {TIME!r} is there already"
                )
            plain = _ALIASES.get(str(kind).lower(), str(kind).lower())
            if plain not in TYPES:
                raise ConfigError(f"column {name!r} has type {kind!r}: there is {', '.join(TYPES)}")
            found[name] = plain
        if not found:
            raise ConfigError("a source has at least one column beside its time")
        object.__setattr__(self, "columns", found)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Kind) and self._order == other._order)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._order)

    @cached_property
    def _order(self) -> tuple[tuple[str, str], ...]:
        return tuple(self.slots.items())

    @cached_property
    def slots(self) -> dict[str, str]:
        """Column to slot."""
        used: Counter[str] = Counter()
        found = {}
        for name, kind in self.columns.items():
            letter = TYPES[kind][0]
            found[name] = f"{letter}{used[letter]}"
            used[letter] += 1
        return found


def slot_type(slot: str) -> pa.DataType:
    """The Arrow type of a slot."""
    return LETTERS[slot[0]][1]
