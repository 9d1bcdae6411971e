"""A template: what queries have in common, as SQL over their constants. It is a value.

Its statements read these relations: `rows`, the batch (`source`, `time`, slots); `constants`, one
row for each computation (`id`, `s0`..., `p0`..., and the columns that a run adds); `pieces`, the
state; and for joins `fresh`, the rows of the batch that are not late, `kept`, the earlier rows that
can still find partners, and `lately`, both of them (all three with a column `batch`). The user's
names never enter a statement: columns are slots, outputs are `o0`..., literals are constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import pyarrow as pa

from headgate.sql import distinct
from headgate.sql.regex import NAMES as PATTERNED
from headgate.sql.source_schema import TYPES, slot_type


class Mode(Enum):
    """How a template produces results."""

    rows = "rows"
    """Each row gives one result."""
    panes = "panes"
    """Aggregates over TUMBLE and HOP windows, kept in panes of one slide."""
    last = "last"
    """Aggregates over the last n rows, for every row."""


@dataclass(frozen=True)
class Template:
    """The common part of queries that differ only in sources and literals. Equal
    templates have equal keys.
    """

    mode: Mode
    sources: int
    slots: tuple[tuple[str, ...], ...]
    """The columns that are read of each source."""
    constants: tuple[str, ...]
    """Types of p0, p1..."""
    names: tuple[str, ...]
    """The names of the outputs."""
    outputs: tuple[str, ...]
    """The expressions of the outputs, over the input's rows or over merged aggregates."""
    condition: str
    """The WHERE clause and the conditions of joins."""
    having: str = "true"
    groups: tuple[str, ...] = ()
    begins: tuple[str, ...] = ()
    """The partial values x0, x1... of rows."""
    merges: tuple[str, ...] = ()
    """The aggregates a0, a1... from x0, x1..."""
    raw: bool = False
    """Whether x0... are values of single rows, because an aggregate cannot be merged."""
    size_us: int = 0
    slide_us: int = 0
    last_rows: int = 0
    bounds: tuple[tuple[int, int], ...] = ()
    """For each source after the first: how long before and after the first source's time its time may be."""
    functions: tuple[str, ...] = ()
    cost: int = 1
    arms: tuple[tuple[str, ...], ...] = ()
    """The SELECTs of a UNION ALL, each over a source of its own: its condition and its items u0, u1..."""
    outer_on: str = ""
    """The conditions of an outer join beside its bound; empty if a join is none. The first source keeps all its rows."""
    where: str = "true"
    """The WHERE clause alone."""
    full: bool = False
    """Whether the second source of an outer join keeps all its rows, too."""

    @cached_property
    def key(self) -> str:
        """Equal for equal templates."""
        return repr(self)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "mode": self.mode.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Template:
        """Read what `to_json` wrote."""
        plain = {name: _tuples(value) for name, value in data.items()}
        return cls(**{**plain, "mode": Mode(data["mode"])})

    @cached_property
    def patterned(self) -> bool:
        """Whether regular expressions are matched."""
        return any(f"{name}(" in self.key for name in PATTERNED)

    @property
    def joins(self) -> int:
        """How many sources are joined; 1 if none are."""
        return self.sources if self.bounds else 1

    @cached_property
    def remembers(self) -> bool:
        """Whether its results show rows that came before a query began to share it."""
        pairs = self.joins > 1 and self.mode is Mode.rows and not self.outer_on
        return pairs or self.mode is Mode.last

    @property
    def warm_us(self) -> int:
        """How long after its beginning a query may still lack rows that came before it, and would have been partners."""
        if not self.outer_on:
            return 0
        before, after = self.bounds[0]
        return max(before, after, 0) if self.full else max(before, 0)

    @property
    def horizon_us(self) -> int:
        """How long a row can still find partners in a join, or is a row's partner of which that is asked later."""
        if self.full:
            return 2 * self.warm_us
        return sum(max(before, 0) + max(after, 0) for before, after in self.bounds)

    def _from(self, lead: int) -> str:
        """The FROM clause: rows joined with the constants of the computations that read them.

        For a join, only the tuples in which source `lead` has the first of the new rows: all leads
        together give each tuple once.
        """
        if self.arms:
            arms = " UNION ALL ".join(map(self._arm, range(len(self.arms))))
            return f"FROM ({arms}) r0 JOIN constants c ON r0.id = c.id WHERE ({self.condition})"
        if self.sources == 1:
            return f"FROM rows r0 JOIN constants c ON r0.source = c.s0 WHERE ({self.condition})"
        joined = "".join(
            f" JOIN {'kept' if i < lead else 'lately'} r{i} ON r{i}.source = c.s{i} AND r{i}.batch >= c.born"
            for i in range(self.sources)
            if i != lead
        )
        within = "".join(_within(bound, i) for i, bound in enumerate(self.bounds, start=1))
        return f"FROM fresh r{lead} JOIN constants c ON r{lead}.source = c.s{lead}{joined} WHERE ({self.condition}){within}"

    def _arm(self, i: int) -> str:
        condition, *items = self.arms[i]
        listed = "".join(f", {e} AS u{number}" for number, e in enumerate(items))
        rows = f"FROM rows r{i} JOIN constants c ON r{i}.source = c.s{i}"
        return f"SELECT c.id AS id, r{i}.time AS time{listed} {rows} WHERE ({condition})"

    def _unmatched(self, own: int) -> str:
        """The FROM clause of an outer join for the rows of a source for which no partner can come any more."""
        row, other = f"r{own}", f"r{1 - own}"
        on = f"{other}.source = c.s{1 - own} AND {other}.batch >= c.born{_within(self.bounds[0], 1)} AND ({self.outer_on})"
        return (
            f"FROM lately {row} JOIN constants c ON {row}.source = c.s{own} AND {row}.batch >= c.born"
            f" LEFT JOIN lately {other} ON {on} WHERE {other}.source IS NULL"
            f" AND epoch_us({row}.time) >= c.old AND epoch_us({row}.time) < c.new AND ({self.where})"
        )

    def sources_of_rows(self, leads: int) -> list[str]:
        """The FROM clauses that together give each new row or tuple once, if so many sources may lead a tuple."""
        found = [self._from(lead) for lead in range(min(leads, self.joins))]
        keeping = (0, 1) if self.full else (0,) if self.outer_on else ()
        return [*found, *map(self._unmatched, keeping)]

    def rows_sql(self, rows: str = "") -> str:
        """The results of a query without aggregates, from a FROM clause."""
        outputs = "".join(f", {e} AS o{i}" for i, e in enumerate(self.outputs))
        time = "coalesce(r0.time, r1.time)" if self.full else "r0.time"
        return f"SELECT c.id AS id, epoch_us({time}) AS at{outputs} {rows or self._from(0)}"

    @property
    def _kept(self) -> str:
        groups = "".join(f", {e} AS g{i}" for i, e in enumerate(self.groups))
        return groups + "".join(f", {e} AS x{i}" for i, e in enumerate(self.begins))

    def begin_sql(self, rows: str = "") -> str:
        """The partial values of new rows, from a FROM clause: partial aggregates of panes, or single rows."""
        rows = rows or self._from(0)
        if self.mode is Mode.last:
            return (
                f"SELECT c.id AS id, epoch_us(r0.time) AS t{self._kept} {rows} AND epoch_us(r0.time) >= c.old"
            )
        pane = (
            f"epoch_us(r0.time) - ((epoch_us(r0.time) % {self.slide_us} + {self.slide_us}) % {self.slide_us})"
        )
        begin = f"SELECT c.id AS id, {pane} AS pane{self._kept} {rows} AND {pane} + {self.size_us} > c.old"
        return begin if self.raw else f"{begin} GROUP BY ALL"

    @property
    def merge_sql(self) -> str:
        """Merge the pieces of each pane, for the computations of this server."""
        columns = [f"g{i}" for i in range(len(self.groups))]
        parts = [f"x{i}" if self.raw else f"{_merged(e, f'x{i}')} AS x{i}" for i, e in enumerate(self.begins)]
        select = ", ".join(["p.id AS id", "pane", *columns, *parts])
        merge = f"SELECT {select} FROM pieces p JOIN constants c ON p.id = c.id AND p.batch >= c.born WHERE pane + {self.size_us} > c.new"
        return merge if self.raw else f"{merge} GROUP BY ALL"

    @property
    def due_sql(self) -> str:
        """Results of the windows that end after `old` and not after `new`."""
        columns = [f"g{i}" for i in range(len(self.groups))]
        listed = "".join(f"{c}, " for c in columns)
        merged = "".join(f", {e} AS a{i}" for i, e in enumerate(self.merges))
        outputs = "".join(f", {e} AS o{i}" for i, e in enumerate(self.outputs))
        kept = "".join(f", x{i}" for i in range(len(self.begins)))
        hops = f" CROSS JOIN (SELECT unnest(range(0, {self.size_us}, {self.slide_us})) AS off) o"
        win, hops = ("p.pane - o.off", hops) if self.slide_us < self.size_us else ("p.pane", "")
        first = (
            f"SELECT p.id AS id, {listed}{win} AS win{kept} FROM pieces p JOIN constants c ON p.id = c.id AND p.batch >= c.born"
            f"{hops} WHERE {win} + {self.size_us} > c.old AND {win} + {self.size_us} <= c.new"
        )
        second = f"SELECT id, {listed}win{merged} FROM due GROUP BY {', '.join(['id', *columns, 'win'])}"
        return (
            f"WITH due AS ({first}), m AS ({second}) "
            f"SELECT m.id AS id, m.win AS at{outputs} FROM m JOIN constants c ON m.id = c.id WHERE {self.having}"
        )

    def _order(self, way: str) -> str:
        nulls = "FIRST" if way else "LAST"
        return ", ".join([f"t{way}", *(f"x{i}{way} NULLS {nulls}" for i in range(len(self.begins)))])

    @property
    def last_sql(self) -> str:
        """The results of the rows that the watermark has passed, each over itself and the rows before it."""
        by = ", ".join(["id", *(f"g{i}" for i in range(len(self.groups)))])
        over = f"PARTITION BY {by} ORDER BY {self._order('')} ROWS BETWEEN {self.last_rows - 1} PRECEDING AND CURRENT ROW"
        merged = "".join(f", {e} OVER w AS a{i}" for i, e in enumerate(self.merges))
        outputs = "".join(f", {e} AS o{i}" for i, e in enumerate(self.outputs))
        return (
            f"WITH q AS (SELECT p.* FROM pieces p JOIN constants c ON p.id = c.id AND p.batch >= c.born), "
            f"m AS (SELECT {by}, t{merged} FROM q WINDOW w AS ({over})) "
            f"SELECT m.id AS id, m.t AS at{outputs} FROM m JOIN constants c ON m.id = c.id "
            f"WHERE m.t >= c.old AND m.t < c.new AND {self.having}"
        )

    @property
    def history_sql(self) -> str:
        """The rows that the next batch needs: those that the watermark has not passed, and the
        last that it has.
        """
        by = ", ".join(["p.id", *(f"g{i}" for i in range(len(self.groups)))])
        kept = "".join(f", g{i}" for i in range(len(self.groups))) + "".join(
            f", x{i}" for i in range(len(self.begins))
        )
        return (
            f"SELECT p.id AS id, t{kept} FROM pieces p JOIN constants c ON p.id = c.id AND p.batch >= c.born "
            f"QUALIFY t >= c.new OR row_number() OVER (PARTITION BY {by}, t >= c.new ORDER BY {self._order(' DESC')}) < {self.last_rows}"
        )

    @property
    def rows_schema(self) -> pa.Schema:
        """The columns that `rows` must have."""
        fields = [pa.field("source", pa.int32()), pa.field("time", pa.timestamp("us"))]
        slots = sorted({slot for slots in self.slots for slot in slots})
        fields += [pa.field(slot, slot_type(slot)) for slot in slots]
        return pa.schema([*fields, pa.field("batch", pa.int64())] if self.joins > 1 else fields)

    @property
    def constants_schema(self) -> pa.Schema:
        """The columns that `constants` must have."""
        fields = [pa.field("id", pa.int64())]
        fields += [pa.field(f"s{i}", pa.int32()) for i in range(self.sources)]
        fields += [pa.field(f"p{i}", TYPES[kind][1]) for i, kind in enumerate(self.constants)]
        return pa.schema([*fields, *(pa.field(n, pa.int64()) for n in RUN_COLUMNS)])


RUN_COLUMNS = ("born", "old", "new")
"""The batch from which a computation sees rows, and its watermark before and after the batch."""


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def _within(bound: tuple[int, int], i: int) -> str:
    before, after = bound
    return f" AND r{i}.time >= r0.time - to_microseconds({before}) AND r{i}.time <= r0.time + to_microseconds({after})"


def _merged(begin: str, column: str) -> str:
    """The aggregate that merges partial values of another."""
    name = begin.split("(", 1)[0]
    plain = f"{name if name in ('min', 'max') else 'sum'}({column})"
    return distinct.merged(begin, column) or plain
