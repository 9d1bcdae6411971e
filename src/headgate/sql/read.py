"""From text to template: parse SQL, refuse what is not supported, and rewrite the rest.

SELECT expressions FROM one source, or two or three joined within a time bound, or a UNION ALL (`union`), [WHERE]
[GROUP BY ..., one window] [HAVING].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from headgate.sql.expressions import WINDOWS, Scope, name_of, write, write_condition
from headgate.sql.grouping import Grouping, aggregates_in
from headgate.sql.limits import SECOND_US, Limits
from headgate.sql.parse import Statement, parsed, scope_of
from headgate.sql.source_schema import TIME, SourceSchema
from headgate.sql.template import Mode, Template
from headgate.sql.text import Shape
from headgate.sql.trial import Part
from headgate.sql.union import Union, qualify, union_of
from headgate.sql.wording import refuse

_SECONDS = {"MICROSECOND": 1e-6, "MILLISECOND": 1e-3, "SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400}


@dataclass(frozen=True)
class Clause:
    """A rewritten part of a query and its position in the text, to report which part an
    engine does not accept.
    """

    sql: str
    place: exp.Expression


@dataclass(frozen=True)
class Reading:
    """A template, and which literals of the text are its constants."""

    template: Template
    constants: tuple[int, ...]
    clauses: tuple[Clause, ...]
    outputs: tuple[exp.Expression, ...]
    having: exp.Expression | None = None
    checks: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """What must hold of the literals: the kind of check, and their numbers."""
    parts: tuple[Part, ...] = ()
    """What has to be tried with the constants of each text."""


def read(
    shape: Shape,
    text: str,
    kinds: Mapping[str, SourceSchema],
    limits: Limits,
    functions: frozenset[str] = frozenset(),
) -> Reading:
    """Read a query over sources with these schemas; QueryRefused says what is not supported, and where."""
    statement = parsed(text, limits)
    scope = scope_of(statement, shape, text, kinds, functions)
    cost = statement.cost
    if cost > limits.cost:
        refuse(
            "cost",
            f"the query costs {cost}, and {limits.cost} is the limit: make it shorter, or split it",
            text,
            0,
        )
    try:
        return _Reader(statement, scope, limits, cost).reading(kinds)
    except RecursionError:
        refuse("cost", "the query is nested too deeply", text, 0)


class _Reader:
    """Turns one query into a template."""

    def __init__(self, statement: Statement, scope: Scope, limits: Limits, cost: int) -> None:
        self.statement, self.scope, self.limits, self.cost = statement, scope, limits, cost
        self.clauses = list[Clause]()
        self.bounds = list[tuple[int, int]]()
        self.outer_on = ""
        self.union: Union | None = None

    def written(self, node: Any, *, condition: bool = False) -> str:
        """An expression over rows, remembered as a clause."""
        sql = (write_condition if condition else write)(node, self.scope)
        self.clauses.append(Clause(sql, node))
        return sql

    def reading(self, kinds: Mapping[str, SourceSchema]) -> Reading:
        scope = self.scope
        if self.statement.arms:
            self.union = union_of(self.statement, scope, kinds)
        tree = self.tree = self.statement.tree or exp.select("*")
        qualify(tree, scope)
        group = tree.args.get("group")
        having = tree.args.get("having")
        if group is not None and self.statement.full:
            advice = "query the results of a FULL JOIN (publish them), or use a LEFT JOIN"
            scope.refuse(group, "window", f"a FULL JOIN has rows without a time for a window: {advice}")
        window = self._window(group)
        for node in group.expressions if group else []:
            scope.fixed |= {n.meta["start"] for n in node.find_all(exp.Literal) if "start" in n.meta}
        items = self._items()
        condition, where = self._condition()
        names = _different([_name(item, i) for i, item in enumerate(items)])
        bare = [item.this if isinstance(item, exp.Alias) else item for item in items]
        base = self._base(condition, where, names)
        if window is None:
            template = self._rows(bare, base, group, having)
        else:
            template = self._grouped(bare, base, window, having)
        return Reading(
            template,
            tuple(scope.constants),
            tuple(self.clauses),
            tuple(bare),
            having,
            tuple(scope.checks),
            tuple(scope.trial.parts),
        )

    def _items(self) -> list[exp.Expression]:
        items = list[exp.Expression]()
        for item in self.tree.expressions:
            if isinstance(item, exp.Star):
                if any(item.args.values()):
                    self.scope.refuse(item, "star", "* is supported without EXCEPT or REPLACE")
                if self.union is not None:
                    items += [exp.column(name, self.union.alias) for name in self.union.names]
                    continue
                for alias, (_, kind) in self.scope.kinds.items():
                    items += [exp.column(name, alias) for name in (TIME, *kind.columns)]
            else:
                items.append(item)
        return items

    def _base(self, condition: str, where: str, names: tuple[str, ...]) -> dict[str, Any]:
        """What every template has, but for what is collected while its expressions are written: see `_collected`."""
        return {
            "names": names,
            "condition": condition,
            "where": where,
            "outer_on": self.outer_on,
            "full": self.statement.full,
            "bounds": tuple(self.bounds),
            "cost": self.cost,
        }

    def _collected(self) -> dict[str, Any]:
        scope = self.scope
        sources = len(self.statement.tables())
        literals = [literal for _, literal in scope.literals.values()]
        used = scope.slots if self.union is None else self.union.slots
        return {
            "sources": sources,
            "slots": tuple(tuple(sorted(used[i])) for i in range(sources)),
            "constants": tuple(literals[number].type for number in scope.constants),
            "functions": tuple(sorted(scope.called)),
            "arms": () if self.union is None else self.union.arms,
        }

    def _rows(self, items: list[Any], base: Mapping[str, Any], group: Any, having: Any) -> Template:
        wanted = group or having or next((i for i in items if aggregates_in(i)), None)
        if wanted is not None:
            self.scope.refuse(
                wanted, "no-window",
                "an aggregate over a stream that never ends needs a window: GROUP BY ..., TUMBLE(time, INTERVAL '1 minute'), "
                "HOP(time, slide, size) or LAST n ROWS",
            )  # fmt: skip
        outputs = tuple(self.written(item) for item in items)
        return Template(Mode.rows, outputs=outputs, **base, **self._collected())

    def _grouped(
        self, items: list[Any], base: Mapping[str, Any], window: tuple[Any, ...], having: Any
    ) -> Template:
        node, mode, size, slide, last = window
        if mode is Mode.last and self.bounds:
            self.scope.refuse(node, "window", "LAST n ROWS is supported over one source")
        groups = [n for n in self.tree.args["group"].expressions if n is not node]
        for group in groups:
            if isinstance(group, exp.Literal):
                self.scope.refuse(
                    group, "ordinal", "GROUP BY a number is not supported: repeat the expression"
                )
        keys = [self.written(group) for group in groups]
        nodes = [*items, *([having.this] if having else [])]
        raw = mode is Mode.last or any(not group.mergeable for n in nodes for group in aggregates_in(n))
        grouping = Grouping(self.scope, groups, node, raw=raw, size_us=size)
        outputs = tuple(write(item, self.scope, grouping.leaf) for item in items)
        kept = write_condition(having.this, self.scope, grouping.leaf) if having else "true"
        self.clauses += [Clause(sql, place) for sql, place in grouping.arguments]
        return Template(
            mode, outputs=outputs, having=kept, groups=tuple(keys), begins=tuple(grouping.begins), merges=tuple(grouping.merges),
            raw=raw, size_us=size, slide_us=slide, last_rows=last, **base, **self._collected(),
        )  # fmt: skip

    # -- windows

    def _window(self, group: Any) -> tuple[exp.Expression, Mode, int, int, int] | None:
        if group is None:
            return None
        more = [k for k, v in group.args.items() if v not in (None, False, []) and k != "expressions"]
        if more:
            self.scope.refuse(
                group, "unsupported", "this kind of GROUP BY is not supported: name the columns"
            )
        windows = [n for n in group.expressions if _is_window(n)]
        if len(windows) > 1:
            self.scope.refuse(windows[1], "window", "there are two windows: a query has one")
        if not windows:
            return None
        node = windows[0]
        if name_of(node) == "last":
            n = node.expressions[0] if len(node.expressions) == 1 else None
            if not isinstance(n, exp.Literal) or not str(n.this).isdecimal() or int(n.this) < 1:
                self.scope.refuse(node, "window", "LAST n ROWS takes a whole number from 1")
            if int(n.this) > self.limits.last_rows:
                self.scope.refuse(
                    node, "window-size", f"LAST {n.this} ROWS: {self.limits.last_rows} is the limit"
                )
            return node, Mode.last, 0, 0, int(n.this)
        return (node, Mode.panes, *self._lengths(node), 0)

    def _lengths(self, node: Any) -> tuple[int, int]:
        name, arguments = node.name.upper(), node.expressions
        usage = "TUMBLE(time, INTERVAL '1 minute')" if name == "TUMBLE" else "HOP(time, slide, size)"
        if len(arguments) != (2 if name == "TUMBLE" else 3) or not isinstance(arguments[0], exp.Column):
            self.scope.refuse(node, "window", f"write {usage}")
        if self.scope.column(arguments[0]) != "r0.time":
            sides = [str(join.args.get("side") or "first").lower() for join in self.statement.joins]
            which = f"{(sides or ['first'])[0]} source"
            self.scope.refuse(node, "window", f"a window is over the {TIME} of the {which}")
        lengths = [self.interval(argument) for argument in arguments[1:]]
        slide, size = lengths[0], lengths[-1]
        if size > self.limits.window_s * SECOND_US:
            self.scope.refuse(
                node,
                "window-size",
                f"a window of {size / SECOND_US:g} s: {self.limits.window_s} s is the limit",
            )
        if slide <= 0 or size % slide:
            self.scope.refuse(node, "window", "a window's slide is above 0, and its size a multiple of it")
        if size // slide > self.limits.hops:
            self.scope.refuse(
                node,
                "window-size",
                f"a row would be in {size // slide} windows: {self.limits.hops} is the limit",
            )
        return size, slide

    def interval(self, node: Any) -> int:
        """Microseconds of INTERVAL 'n unit'."""
        unit = node.args.get("unit") if isinstance(node, exp.Interval) else None
        amount = str(node.this.this) if unit is not None and isinstance(node.this, exp.Literal) else ""
        name = unit.name.upper().removesuffix("S") if unit is not None else ""
        if name not in _SECONDS or not amount.isdecimal() or len(amount) > 12:
            self.scope.refuse(
                node, "interval", "an interval is written INTERVAL '10 seconds' (minutes, hours, days)"
            )
        return round(int(amount) * _SECONDS[name] * SECOND_US)

    # -- conditions and joins

    def _condition(self) -> tuple[str, str]:
        """What joined rows must fulfil, and the part of it that WHERE asks for."""
        parts = list[str]()
        for i, join in enumerate(self.statement.joins, start=1):
            parts += self._joined(join, i)
        where = self.tree.args.get("where")
        asked = "true"
        if where is not None:
            if aggregates := aggregates_in(where.this):
                self.scope.refuse(
                    aggregates[0].node, "aggregate", "WHERE sees rows, not aggregates: use HAVING"
                )
            asked = self.written(where.this, condition=True)
            parts.append(asked)
        return " AND ".join(parts) or "true", asked

    def _joined(self, join: exp.Join, source: int) -> list[str]:
        kind, side = (str(join.args.get(part) or "").upper() for part in ("kind", "side"))
        odd = [
            k
            for k, v in join.args.items()
            if v not in (None, False, [], "") and k not in ("this", "on", "kind", "side")
        ]
        if odd or kind not in ("", "INNER", "OUTER") or join.args.get("on") is None:
            self.scope.refuse(join, "join", "a join is written JOIN source ON ..., with a time bound")
        if side not in ("", "LEFT", "RIGHT", "FULL") or (side and len(self.statement.joins) > 1):
            self.scope.refuse(join, "join", "an outer join is a LEFT, RIGHT or FULL JOIN of two sources")
        found = self._conditions(join, source)
        if side:
            self.outer_on = " AND ".join(found) or "true"
        return found

    def _conditions(self, join: exp.Join, source: int) -> list[str]:
        """The conditions of a join without its time bound, which is remembered."""
        conditions = (
            list(join.args["on"].flatten()) if isinstance(join.args["on"], exp.And) else [join.args["on"]]
        )
        bounds = [
            (condition, bound)
            for condition in conditions
            if (bound := self._bound(condition, source)) is not None
        ]
        if len(bounds) != 1:
            self.scope.refuse(
                join, "join-bound",
                "a join needs one time bound: ON b.time BETWEEN a.time - INTERVAL '10 seconds' AND a.time + INTERVAL '10 seconds', "
                "where a is the first source (of a RIGHT JOIN, the second)",
            )  # fmt: skip
        self.bounds.append(bounds[0][1])
        return [self.written(one, condition=True) for one in conditions if one is not bounds[0][0]]

    def _bound(self, node: Any, source: int) -> tuple[int, int] | None:
        """How long before and after the first source's time a condition allows this source's time to be."""
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Between):
            return None
        middle, low, high = (self._offset(n) for n in (node.this, node.args["low"], node.args["high"]))
        if middle is None or low is None or high is None or middle[1] or low[0] != high[0]:
            return None
        if (middle[0], low[0]) == (source, 0):
            before, after = -low[1], high[1]
        elif (middle[0], low[0]) == (0, source):
            before, after = high[1], -low[1]
        else:
            return None
        if max(abs(before), abs(after)) > self.limits.join_s * SECOND_US:
            self.scope.refuse(node, "join-bound", f"joined rows may lie {self.limits.join_s} s apart at most")
        return before, after

    def _offset(self, node: Any) -> tuple[int, int] | None:
        """(source, microseconds) of an expression that is a source's time plus or minus an interval."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, (exp.Add, exp.Sub)) and isinstance(node.expression, exp.Interval):
            inner = self._offset(node.this)
            sign = 1 if isinstance(node, exp.Add) else -1
            return None if inner is None else (inner[0], inner[1] + sign * self.interval(node.expression))
        if isinstance(node, exp.Column) and node.name == TIME:
            return int(self.scope.column(node)[1]), 0
        return None


def _is_window(node: exp.Expression) -> bool:
    return name_of(node) in WINDOWS


def _name(item: exp.Expression, i: int) -> str:
    if isinstance(item, exp.Alias):
        return item.alias
    if isinstance(item, exp.Column):
        return item.name
    aggregates = aggregates_in(item)
    if aggregates and aggregates[0].node is item:
        inner = item.expressions[0] if item.expressions else None
        return f"{name_of(item)}_{inner.name}" if isinstance(inner, exp.Column) else name_of(item)
    return "window_start" if _is_window(item) else f"column{i}"


def _different(names: Sequence[str]) -> tuple[str, ...]:
    """Unique names of the outputs: the second x becomes x_2."""
    unique = list[str]()
    for name in names:
        number, wanted = 1, name
        while wanted in unique:
            number += 1
            wanted = f"{name}_{number}"
        unique.append(wanted)
    return tuple(unique)
