"""Aggregates of a grouped query: the partial values of rows, how they merge, and their use
in SELECT and HAVING.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from headgate.sql import distinct
from headgate.sql.expressions import AGGREGATES, MERGEABLE, Scope, name_of, write
from headgate.sql.functions import written


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate in an expression."""

    node: exp.Anonymous
    name: str
    distinct: bool

    @property
    def mergeable(self) -> bool:
        """Whether partial values of it can be merged."""
        return self.name in MERGEABLE


def aggregates_in(node: exp.Expression) -> list[AggregateCall]:
    """The aggregates of an expression, outermost first."""
    return [call for n in node.walk(bfs=True) if (call := _call(n)) is not None]


def _call(node: object) -> AggregateCall | None:
    name = AGGREGATES.get(name_of(node))
    if name is None or not isinstance(node, exp.Anonymous):
        return None
    return AggregateCall(node, name, any(isinstance(n, exp.Distinct) for n in node.expressions))


class Grouping:
    """Collects the partial values (`begins`) and how they merge (`merges`) while the outputs are written."""

    def __init__(
        self,
        scope: Scope,
        groups: Sequence[exp.Expression],
        window: exp.Expression,
        *,
        raw: bool,
        size_us: int,
    ) -> None:
        self.scope, self.groups, self.window, self.raw, self.size_us = scope, groups, window, raw, size_us
        self.begins, self.merges = list[str](), list[str]()
        self.arguments = list[tuple[str, exp.Expression]]()

    def leaf(self, node: exp.Expression) -> str | None:
        """What a node means after grouping; None if its parts have to be considered."""
        for i, group in enumerate(self.groups):
            if node == group:
                return f"m.g{i}"
        if node == self.window or (
            isinstance(node, exp.Column) and node.name in ("window_start", "window_end")
        ):
            if not self.size_us:
                self.scope.refuse(
                    node, "window", "LAST n ROWS has no start and end: each result has the time of its row"
                )
            end = isinstance(node, exp.Column) and node.name == "window_end"
            return f"make_timestamp(m.win + {self.size_us})" if end else "make_timestamp(m.win)"
        if (call := _call(node)) is not None:
            return f"m.a{self._aggregate(call)}"
        if isinstance(node, exp.Column):
            self.scope.refuse(
                node,
                "not-grouped",
                f"{node.name!r} is neither grouped nor in an aggregate: add it to GROUP BY",
            )
        return None

    def _aggregate(self, call: AggregateCall) -> int:
        node = call.node
        inner: Any = node.expressions[0] if node.expressions else None
        if call.distinct:
            if call.name != "count" or len(inner.expressions) != 1 or inner.args.get("on"):
                self.scope.refuse(node, "distinct", "DISTINCT is supported in count(DISTINCT expression)")
            inner = inner.expressions[0]
        if len(node.expressions) != 1 or not isinstance(inner, exp.Expression):
            name = written(node, self.scope)
            self.scope.refuse(node, "aggregate", f"{name}() takes one expression")
        argument = None
        if not (isinstance(inner, exp.Star) and call.name == "count" and not call.distinct):
            if nested := aggregates_in(inner):
                self.scope.refuse(
                    nested[0].node, "aggregate", "an aggregate inside an aggregate is not supported"
                )
            argument = write(inner, self.scope)
            self.arguments.append((argument, inner))
        merge = self._merge(call, argument)
        if merge not in self.merges:
            self.merges.append(merge)
        return self.merges.index(merge)

    def _merge(self, call: AggregateCall, argument: str | None) -> str:
        name = call.name
        if self.raw:
            if argument is None:
                return "count(*)"
            if call.distinct or name == "approx_count_distinct":
                return f"count(DISTINCT {self._keep(argument)})"
            return f"{name}({self._keep(argument)})"
        if argument is not None and call.distinct:
            return distinct.exact(self._keep(distinct.values_of(argument)))
        if argument is not None and name == "approx_count_distinct":
            return distinct.estimate(self._keep(distinct.sketch_of(argument)))
        if name == "count":
            number = self._keep(f"count({argument or '*'})")
            return f"CAST(sum({number}) AS BIGINT)"
        if name == "avg":
            total, number = self._keep(f"sum({argument})"), self._keep(f"count({argument})")
            return f"(CAST(sum({total}) AS DOUBLE) / CAST(sum({number}) AS DOUBLE))"
        return f"{name}({self._keep(f'{name}({argument})')})"

    def _keep(self, begin: str) -> str:
        if begin not in self.begins:
            self.begins.append(begin)
        return f"x{self.begins.index(begin)}"
