"""UNION ALL: the SELECTs that stand in the place of a source. Each reads one source, and their rows are one relation.

The relation has a column `u0`, `u1`... for each item of the SELECTs, and the time of each row. The query above it is read as
if it were over one source with these columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from headgate.sql.expressions import Scope, write, write_condition
from headgate.sql.parse import Statement, known_table
from headgate.sql.source_schema import TIME, SourceSchema

ALIAS = "union"
"""The name of the relation, if the text gives it none."""


class Columns:
    """What names mean in the relation: stands where the schema of a source stands."""

    def __init__(self, names: list[str]) -> None:
        self.columns = {name: "" for name in names if name != TIME}
        self.slots = {name: f"u{i}" for i, name in enumerate(names)}


@dataclass(frozen=True)
class Union:
    """The SELECTs, rewritten."""

    alias: str
    names: tuple[str, ...]
    arms: tuple[tuple[str, ...], ...]
    """Of each SELECT: its condition, and its items."""
    slots: tuple[set[str], ...]
    """The columns that are read of each source."""


def qualify(tree: exp.Select, scope: Scope) -> None:
    """Write names in lower case and columns with their source, so that equal expressions are equal trees."""
    for name in tree.find_all(exp.Identifier):
        name.set("this", name.this.lower())
        name.set("quoted", False)
    for call in tree.find_all(exp.Anonymous):
        call.set("this", str(call.this).lower())
    aliases = {i: alias for alias, (i, _) in scope.kinds.items()}
    before = [set(slots) for slots in scope.slots]
    for column in tree.find_all(exp.Column):
        if isinstance(column.this, exp.Star) or column.name in ("window_start", "window_end"):
            continue
        if not column.table:
            source = int(scope.column(column)[1])
            column.set("table", exp.to_identifier(aliases[source]))
    for slots, used in zip(scope.slots, before, strict=True):  # only what is written is read
        slots.intersection_update(used)


def union_of(statement: Statement, scope: Scope, kinds: Mapping[str, SourceSchema]) -> Union:
    """Rewrite the SELECTs of a statement, and tell the scope of the query above them what their columns are."""
    slots = [set[str]() for _ in statement.arms]
    names, arms = list[str](), list[tuple[str, ...]]()
    at_time: int | None = None
    for i, arm in enumerate(statement.arms):
        alias, kind = known_table(arm.args["from_"].this, scope.text, kinds)
        inner = replace(scope, kinds={alias: (i, kind)}, slots=slots, where=i)
        items = _items(arm, alias, kind, inner)
        qualify(arm, inner)
        if not i:
            names = [_name(item, number) for number, item in enumerate(items)]
            at_time = names.index(TIME) if TIME in names else None
            _check_names(names, arm, scope)
        if len(items) != len(names):
            scope.refuse(
                arm,
                "union",
                f"the parts of a UNION ALL have {len(names)} and {len(items)} columns: give all as many",
            )
        bare = [item.this if isinstance(item, exp.Alias) else item for item in items]
        if at_time is not None and not (isinstance(bare[at_time], exp.Column) and bare[at_time].name == TIME):
            scope.refuse(
                bare[at_time],
                "union",
                f"column {at_time + 1} of each SELECT is the {TIME} of its source, as in the first",
            )
        where = arm.args.get("where")
        condition = write_condition(where.this, inner) if where is not None else "true"
        arms.append((condition, *(write(item, inner) for item in bare)))
    scope.timed = at_time is not None
    alias = statement.alias or ALIAS
    scope.kinds = {alias: (0, Columns(names))}
    return Union(alias, tuple(names), tuple(arms), tuple(slots))


def _items(arm: exp.Select, alias: str, kind: SourceSchema, scope: Scope) -> list[Any]:
    items = list[Any]()
    for item in arm.expressions:
        if isinstance(item, exp.Star):
            if any(item.args.values()):
                scope.refuse(item, "star", "* is supported without EXCEPT or REPLACE")
            items += [exp.column(name, alias) for name in (TIME, *kind.columns)]
        else:
            items.append(item)
    return items


def _name(item: Any, number: int) -> str:
    named = isinstance(item, (exp.Alias, exp.Column))
    return str(item.alias_or_name).lower() if named else f"column{number}"


def _check_names(names: list[str], arm: exp.Select, scope: Scope) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        scope.refuse(
            arm, "ambiguous", f"two columns of the first SELECT are named {twice!r}: rename one with AS"
        )
