"""A computation, and the constants of all computations of a template on a server, as the table that tasks read.

Law: the table is that of the computations that are there now, in any order. To build it costs what has changed since it
was built last, and array operations over the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headgate.sql.template import RUN_COLUMNS, Template

MOST_PARTS = 16
"""When a table has this many parts, they are copied into one."""
_UNFIT = (pa.ArrowException, ArithmeticError, LookupError, TypeError, ValueError)


class Computation(NamedTuple):
    """A template with sources and constants, on a server."""

    id: int
    template: int
    sources: tuple[int, ...]
    constants: tuple[Any, ...]
    server: int
    born: int
    here: int
    """The first batch whose state of it is on its server: whatever a server wrote of it before is out of date."""
    since: int
    """The same before its last move, until that is committed: state from this batch on is taken over (`moves`)."""

    @property
    def definition(self) -> tuple[Any, ...]:
        """What equal queries have in common."""
        return (self.template, self.sources, self.constants)

    def row(self) -> tuple[Any, ...]:
        """The row of the registry. Its last column is one of an older format."""
        number, template, sources, constants, server, born, _, since = self
        return (number, template, _listed(sources), _listed(constants), server, born, since, None)


class HostedConstants:
    """The computations of a template on a server."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._computations: dict[int, Computation] = {}
        self._fresh: set[int] = set()
        """Computations that are not in the table yet, or have changed since."""
        self._stale: set[int] = set()
        """Computations whose row in the table is no longer valid."""
        self.version = -1
        self.table = table_of(template, [])

    def __len__(self) -> int:
        return len(self._computations)

    @property
    def changed(self) -> bool:
        """Whether the table has to be built."""
        return self.version < 0 or bool(self._fresh or self._stale)

    def add(self, computation: Computation) -> None:
        """Add a computation."""
        self._computations[computation.id] = computation
        self._fresh.add(computation.id)

    def remove(self, number: int) -> None:
        """Remove a computation."""
        del self._computations[number]
        self._stale.add(number)
        self._fresh.discard(number)

    def refresh(self, number: int) -> None:
        """Have the row of a computation made again."""
        self._stale.add(number)
        self._fresh.add(number)

    def replace(self, computation: Computation) -> None:
        """Put a computation in the place of the one with its number."""
        self._computations[computation.id] = computation
        self.refresh(computation.id)

    def build(self, owner_of: Callable[[int], int]) -> dict[int, str]:
        """Build the table; returns the computations that do not fit in it, and why. They are left out."""
        table, unfit = self.table, dict[int, str]()
        if self._stale:
            stale = np.isin(table.column("id").to_numpy(), np.array(list(self._stale), np.int64))
            table = table.filter(pa.array(~stale))
        fresh = [self._computations[number] for number in sorted(self._fresh)]
        try:
            new = table_of(self._template, fresh, owner_of)
        except _UNFIT:  # one that an earlier version took, or that somebody has written into the registry
            unfit = {c.id: why for c in fresh if (why := _unfit(self._template, c))}
            new = table_of(self._template, [c for c in fresh if c.id not in unfit], owner_of)
        table = pa.concat_tables([table, new])
        if table.column("id").num_chunks > MOST_PARTS:
            table = table.combine_chunks()
        self.table = table
        self._fresh.clear()
        self._stale.clear()
        return unfit


def table_of(
    template: Template, hosted: Sequence[Computation], owner_of: Callable[[int], int] = lambda number: 0
) -> pa.Table:
    """The constants of computations, and whose they are."""
    fields = [f for f in template.constants_schema if f.name not in RUN_COLUMNS[1:]]
    schema = pa.schema([*fields, *(pa.field(name, pa.int64()) for name in ("owner", "here", "since"))])
    columns: list[list[Any]] = [[c.id for c in hosted]]
    columns += [[c.sources[i] for c in hosted] for i in range(template.sources)]
    columns += [[c.constants[i] for c in hosted] for i in range(len(template.constants))]
    columns += [[c.born for c in hosted], [owner_of(c.id) for c in hosted]]
    columns += [[c.here for c in hosted], [c.since for c in hosted]]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _listed(values: tuple[Any, ...]) -> str:
    """Numbers and texts as a JSON list."""
    return f"[{', '.join([encode_basestring_ascii(v) if isinstance(v, str) else repr(v) for v in values])}]"


def _unfit(template: Template, computation: Computation) -> str:
    """Why a computation cannot be hosted; empty if it can."""
    try:
        table_of(template, [computation])
    except _UNFIT as error:
        return f"its constants do not fit their types: {error}"
    return ""
