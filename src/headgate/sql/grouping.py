"""Aggregates of a grouped query: what is kept of rows, how parts of it merge, and what SELECT and HAVING make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headgate.sql.expressions import AGGREGATES, MERGEABLE, Scope, write


@dataclass(frozen=True)
class Found:
    """An aggregate in an expression."""

    node: exp.Expression
    name: str
    distinct: bool

    @property
    def mergeable(self) -> bool:
        """Whether parts of it make the whole."""
        return self.name in MERGEABLE and not self.distinct


def aggregates_in(node: exp.Expression) -> list[Found]:
    """The aggregates of an expression, outermost first."""
    return [_found(n) for n in node.walk(bfs=True) if isinstance(n, exp.Expression) and type(n) in AGGREGATES]


def _found(node: exp.Expression) -> Found:
    return Found(node, AGGREGATES[type(node)], isinstance(node.this, exp.Distinct))


class Grouping:
    """Collects what a template keeps (`begins`) and how it is merged (`merges`) while outputs are written."""

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
        """What a node means after grouping; None where it is made of parts that do."""
        for i, group in enumerate(self.groups):
            if node == group:
                return f"m.g{i}"
        if node == self.window or (
            isinstance(node, exp.Column) and node.name in ("window_start", "window_end")
        ):
            if not self.size_us:
                self.scope.refuse(
                    node, "window", "LAST n ROWS has no start and end: each result carries its row's time"
                )
            end = isinstance(node, exp.Column) and node.name == "window_end"
            return f"make_timestamp(m.win + {self.size_us})" if end else "make_timestamp(m.win)"
        if type(node) in AGGREGATES:
            return f"m.a{self._aggregate(_found(node))}"
        if isinstance(node, exp.Column):
            self.scope.refuse(
                node,
                "not-grouped",
                f"{node.name!r} is neither grouped nor in an aggregate: add it to GROUP BY",
            )
        return None

    def _aggregate(self, found: Found) -> int:
        node = found.node
        more = [
            k for k, v in node.args.items() if v not in (None, False, []) and k not in ("this", "big_int")
        ]
        inner = node.this
        if found.distinct:
            if found.name != "count" or len(inner.expressions) != 1 or inner.args.get("on"):
                self.scope.refuse(node, "distinct", "DISTINCT is taken in count(DISTINCT expression)")
            inner = inner.expressions[0]
        if more or not isinstance(inner, exp.Expression):
            self.scope.refuse(node, "aggregate", f"{found.name}() takes one expression")
        argument = None
        if not (isinstance(inner, exp.Star) and found.name == "count" and not found.distinct):
            if nested := aggregates_in(inner):
                self.scope.refuse(
                    nested[0].node, "aggregate", "an aggregate inside an aggregate is not taken"
                )
            argument = write(inner, self.scope)
            self.arguments.append((argument, inner))
        merge = self._merge(found, argument)
        if merge not in self.merges:
            self.merges.append(merge)
        return self.merges.index(merge)

    def _merge(self, found: Found, argument: str | None) -> str:
        name = found.name
        if self.raw:
            if argument is None:
                return "count(*)"
            return f"{name}({'DISTINCT ' if found.distinct else ''}{self._keep(argument)})"
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
