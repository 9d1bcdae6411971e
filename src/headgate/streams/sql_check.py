"""Gives every part of an expression its Spark type, and refuses what is not proven to be computed as in Spark.

The list of what is proven is this file: a construct is on it because `tests/spark/test_sql_step.py`
compares it with Spark, on nulls, NaN, both zeros, the ends of every type, and Unicode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from headgate.errors import ConfigError, MissingColumn
from headgate.state.payload import check_carried
from headgate.streams.sql_compute import Expr, negative_zero
from headgate.streams.sql_dates import UNITS_US, UNIX, date_value, timestamp_micros
from headgate.streams.sql_parse import Node
from headgate.streams.sql_tokens import NotColumnar, place
from headgate.streams.sql_types import (
    BOOL,
    CASTS,
    DATE,
    DOUBLE,
    INT,
    LOCAL,
    LONG,
    STRING,
    TIMESTAMP,
    common,
    converted,
    is_float,
    is_int,
    literal,
    named,
    number,
)

_NOW = {
    "current_date",
    "current_timestamp",
    "current_time",
    "localtimestamp",
    "current_user",
    "user",
    "session_user",
}
"""Names that are functions of Spark if no column has them."""
_OF_UTC = {"UTC", "Etc/UTC", "Z", "GMT", "+00:00", "Etc/GMT", "UCT", "Zulu", "Universal"}
_SAME = {
    "ceiling": "ceil", "char_length": "length", "character_length": "length", "len": "length", "nvl": "coalesce",
    "ifnull": "coalesce", "dayofmonth": "day", "substr": "substring", "date": "to_date",
}  # fmt: skip


@dataclass(frozen=True)
class Check:
    """The columns and settings under which a text is read."""

    schema: pa.Schema
    text: str
    ansi: bool = True
    zone: str = "UTC"
    aliases: frozenset[str] = frozenset()
    """Lower-case names that earlier items of the same select give."""

    @property
    def _utc(self) -> bool:
        return self.zone in _OF_UTC

    def expr(self, node: Node) -> Expr:
        """The typed expression."""
        rule = _RULES.get(node.kind)
        return rule(self, node) if rule else self._binary(node)

    def column(self, node: Node) -> str:
        """The name of the column that a node names."""
        name, *fields = node.value
        found = [one for one in self.schema.names if one.lower() == name.lower()]
        if len(found) > 1:
            raise ConfigError(f"`{self.text}`: {name!r} names several columns: {', '.join(map(repr, found))}")
        if not found and name.lower() in self.aliases:
            raise NotColumnar(
                f"`{name}` is a name that the same select gives, which is resolved by Spark only"
            )
        if not found and name.lower() in _NOW:
            raise NotColumnar(f"`{name}` is computed by Spark only")
        if not found:
            listed = ", ".join(map(repr, self.schema.names))
            dotted = ".".join(node.value)
            quote = (
                f" (a name with a dot is put into backquotes: `{dotted}`)"
                if dotted in self.schema.names
                else ""
            )
            raise MissingColumn(
                f"`{self.text}` names the column {name!r} ({place(self.text, node.at)}), which is not in the stream, "
                f"which has {listed or 'none'}; name one of these{quote}"
            )
        if fields:
            raise NotColumnar(f"`{'.'.join(node.value)}` reads a field of a column, which is left to Spark")
        return str(found[0])

    def _needs_ansi(self, what: str) -> None:
        if not self.ansi:
            raise NotColumnar(f"{what} does not fail in a session without ANSI mode, and is left to Spark")

    def _common(self, exprs: list[Expr], what: str, *, compared: bool = False) -> list[Expr]:
        return common(exprs, what, ansi=self.ansi, utc=self._utc, compared=compared)

    def _bool(self, node: Node) -> Expr:
        found = self.expr(node)
        if found.type not in (BOOL, pa.null()):
            raise NotColumnar(f"`{self.text}` has {named(found.type)} where a boolean is expected")
        return converted(found, BOOL)

    def _typed(self, node: Node, what: str, *kinds: pa.DataType) -> Expr:
        """An argument of one of these types."""
        found = self.expr(node)
        if found.type not in kinds:
            listed = " or ".join(map(named, kinds))
            raise NotColumnar(
                f"{what} of {named(found.type)} is computed by Spark only; here it takes {listed}"
            )
        return found

    def _column(self, node: Node) -> Expr:
        name = self.column(node)
        kind = self.schema.field(name).type
        check_carried(kind)
        return Expr("column", kind, value=name)

    def _date(self, node: Node) -> Expr:
        value = date_value(node.value)
        if value is None:
            raise NotColumnar(f"DATE {node.value!r} is read by Spark only; write it as YYYY-MM-DD")
        return literal(value, DATE)

    def _timestamp(self, node: Node) -> Expr:
        value = timestamp_micros(node.value)
        if value is None or not self._utc:
            raise NotColumnar(f"TIMESTAMP {node.value!r} is read by Spark only, by its time zone {self.zone}")
        return literal(value, TIMESTAMP)

    def _logic(self, node: Node) -> Expr:
        return Expr(node.kind, BOOL, tuple(map(self._bool, node.args)))

    def _compare(self, node: Node) -> Expr:
        args = self._common(list(map(self.expr, node.args)), f"`{node.kind}`", compared=True)
        if pa.types.is_null(args[0].type):
            raise NotColumnar("a comparison of NULL with NULL is left to Spark")
        return Expr(node.kind, BOOL, tuple(args))

    def _between(self, node: Node) -> Expr:
        value, low, high = node.args
        ends = [Node(">=", node.at, None, (value, low)), Node("<=", node.at, None, (value, high))]
        return self._logic(Node("and", node.at, None, tuple(ends)))

    def _in(self, node: Node) -> Expr:
        exprs = list(map(self.expr, node.args))
        if any(expr.op != "literal" for expr in exprs[1:]):
            raise NotColumnar("IN with other items than constants is computed by Spark only")
        value, *items = self._common(exprs, "IN", compared=True)
        if value.type in (pa.null(), BOOL):
            raise NotColumnar(f"IN of {named(value.type)} is computed by Spark only")
        return Expr("in", BOOL, (value,), tuple(item.value for item in items))

    def _like(self, node: Node) -> Expr:
        value, pattern = self._typed(node.args[0], "LIKE", STRING), self.expr(node.args[1])
        text = pattern.value if pattern.op == "literal" else None
        middle = text.strip("%") if isinstance(text, str) else "%"
        if "%" in middle or "_" in middle or not isinstance(text, str):
            raise NotColumnar("LIKE is computed by Spark only, but for text with % at its ends")
        first, last = text.startswith("%"), text.endswith("%")
        if not first and not last:
            return Expr("=", BOOL, (value, pattern))
        op = "contains" if first and last else "endswith" if first else "startswith"
        return Expr(op, BOOL, (value,), middle)

    def _binary(self, node: Node) -> Expr:
        op, args = node.kind, list(map(self.expr, node.args))
        if op == "||":
            return self._joined(args)
        args = self._common(args, f"`{op}`")
        kind = args[0].type
        if not is_int(kind) and not is_float(kind):
            raise NotColumnar(
                f"`{op}` of {named(kind)} is computed by Spark only; cast to double for doubles"
            )
        if op == "/" and kind != DOUBLE:
            args, kind = [converted(arg, DOUBLE) for arg in args], DOUBLE
        if op == "div":
            if not is_int(kind):
                raise NotColumnar(f"DIV of {named(kind)} is computed by Spark only")
            args, kind = [converted(arg, LONG) for arg in args], LONG
        fails = is_int(kind) or op in ("/", "%")
        if fails:
            self._needs_ansi(f"`{op}`")
        return Expr(op, kind, tuple(args), fails=fails)

    def _negative(self, node: Node) -> Expr:
        return self._number_call("neg" if node.kind == "neg" else "plus", node.args[0])

    def _number_call(self, op: str, node: Node) -> Expr:
        """An operation on a number of any size, with a result of the same type."""
        arg = self.expr(node)
        if not is_int(arg.type) and not is_float(arg.type):
            raise NotColumnar(f"`{op}` of {named(arg.type)} is computed by Spark only")
        if op == "plus":
            return arg
        if is_int(arg.type):
            self._needs_ansi(f"`{op}`")
        return Expr(op, arg.type, (arg,), fails=is_int(arg.type))

    def _joined(self, args: list[Expr]) -> Expr:
        for arg in args:
            if arg.type != STRING:
                raise NotColumnar(f"concat of {named(arg.type)} is computed by Spark only: cast it to string")
        return Expr("concat", STRING, tuple(args))

    def _cast(self, node: Node) -> Expr:
        arg, kind = self.expr(node.args[0]), CASTS.get(node.value)
        ok = kind is not None and (
            arg.type in (kind, pa.null())
            or (is_int(arg.type) and kind in (DOUBLE, STRING))
            or (arg.type == BOOL and (kind == STRING or is_int(kind)))
            or (is_float(arg.type) and kind == DOUBLE)
        )
        if kind is not None and is_int(kind) and is_int(arg.type):
            narrow = kind.bit_width < arg.type.bit_width
            if narrow:
                self._needs_ansi("a cast to a smaller type")
            return Expr("cast", kind, (arg,), fails=narrow)
        if kind == DATE and arg.type == TIMESTAMP:
            return self._dated(arg)
        if kind is None or not ok:
            raise NotColumnar(f"a cast of {named(arg.type)} to {node.value} is computed by Spark only")
        return arg if arg.type == kind else Expr("cast", kind, (arg,))

    def _dated(self, arg: Expr) -> Expr:
        self._needs_utc("the date of a timestamp")
        return Expr("to_date", DATE, (arg,))

    def _needs_utc(self, what: str) -> None:
        if not self._utc:
            raise NotColumnar(f"{what} depends on the session's time zone, {self.zone}, and is left to Spark")

    def _case(self, node: Node) -> Expr:
        conditions = list(map(self._bool, node.args[:-1:2]))
        if any(condition.op == "literal" and condition.value is None for condition in conditions):
            raise NotColumnar("a condition that is only NULL is left to Spark")
        values = [self.expr(arg) for arg in (*node.args[1::2], node.args[-1])]
        values = self._common(values, "CASE or IF")
        if any(map(negative_zero, values)):
            raise NotColumnar("CASE and IF with a constant -0.0 are left to Spark, which may make it a 0.0")
        pairs = [one for pair in zip(conditions, values[:-1], strict=True) for one in pair]
        return Expr("case", values[-1].type, (*pairs, values[-1]))

    def _call(self, node: Node) -> Expr:
        name, n = _SAME.get(node.value, node.value), len(node.args)
        least, most = _ARGUMENTS.get(node.value) or _ARGUMENTS.get(name, (1, 1))
        if not least <= n <= most:
            raise NotColumnar(f"`{node.value}` with {n} arguments is left to Spark")
        if name in _CALLS:
            return _CALLS[name](self, name, node)
        if name in ("contains", "startswith", "endswith"):
            value, pattern = (self._typed(arg, f"`{name}`", STRING) for arg in node.args)
            if pattern.op != "literal":
                raise NotColumnar(f"`{name}` with another pattern than a constant is computed by Spark only")
            return Expr(name, BOOL, (value,), pattern.value)
        if name == "timestamp_micros":
            return Expr(name, TIMESTAMP, (self._typed(node.args[0], f"`{name}`", LONG, INT),))
        if name in UNIX:
            return Expr(name, LONG, (self._typed(node.args[0], f"`{name}`", TIMESTAMP),))
        kinds = (TIMESTAMP,) if name in ("hour", "minute", "second") else (TIMESTAMP, DATE)
        value = self._typed(node.args[0], f"`{name}`", *kinds)
        if value.type == TIMESTAMP:
            self._needs_utc(f"`{name}` of a timestamp")
        return Expr(name, INT, (value,))

    def _whole(self, name: str, node: Node) -> Expr:
        arg = self._typed(node.args[0], f"`{name}`", DOUBLE)
        self._needs_ansi(f"`{name}`")
        return Expr(name, LONG, (arg,), fails=True)

    def _several(self, name: str, node: Node) -> Expr:
        args = self._common(list(map(self.expr, node.args)), f"`{name}`")
        kind = args[0].type
        if name != "coalesce" and not (is_int(kind) or kind in (DATE, TIMESTAMP, LOCAL)):
            raise NotColumnar(f"`{name}` of {named(kind)} is computed by Spark only")
        if pa.types.is_null(kind):
            raise NotColumnar(f"`{name}` of NULL only is left to Spark")
        return Expr(name, kind, tuple(args))

    def _nullif(self, name: str, node: Node) -> Expr:
        left, right = node.args
        same = self._compare(Node("=", node.at, None, (left, right)))
        value = self.expr(left)
        return Expr("case", value.type, (same, literal(None, value.type), value))

    def _text(self, name: str, node: Node) -> Expr:
        arg = self._typed(node.args[0], f"`{name}`", STRING)
        return Expr(name, STRING, (arg,))

    def _length(self, name: str, node: Node) -> Expr:
        arg = self._typed(node.args[0], f"`{name}`", STRING, pa.binary())
        return Expr(name if arg.type == STRING else "byte length", INT, (arg,))

    def _substring(self, name: str, node: Node) -> Expr:
        value = self._typed(node.args[0], f"`{name}`", STRING)
        bounds = [self.expr(arg) for arg in node.args[1:]]
        if any(b.op != "literal" or b.type != INT or b.value < 0 for b in bounds):
            raise NotColumnar(f"`{name}` is computed by Spark only, but with constants that are not negative")
        first, *size = [b.value for b in bounds]
        if name == "left":
            return Expr("substring", STRING, (value,), (0, first))
        start = max(first - 1, 0)
        return Expr(name, STRING, (value,), (start, start + size[0] if size else None))

    def _trunc(self, name: str, node: Node) -> Expr:
        unit, value = self.expr(node.args[0]), self._typed(node.args[1], f"`{name}`", TIMESTAMP)
        word = unit.value.lower() if unit.op == "literal" and isinstance(unit.value, str) else ""
        if word not in UNITS_US:
            raise NotColumnar(f"`{name}` is computed by Spark only, but to {', '.join(UNITS_US)}")
        self._needs_utc(f"`{name}`")
        return Expr(name, TIMESTAMP, (value,), word, fails=True)

    def _to_date(self, name: str, node: Node) -> Expr:
        arg = self._typed(node.args[0], f"`{name}`", TIMESTAMP, DATE)
        return arg if arg.type == DATE else self._dated(arg)


_RULES: dict[str, Callable[[Check, Node], Expr]] = {
    "paren": lambda check, node: check.expr(node.args[0]),
    "column": Check._column,
    "number": lambda check, node: number(node),
    "string": lambda check, node: literal(node.value, STRING),
    "constant": lambda check, node: literal(node.value, pa.null() if node.value is None else BOOL),
    "date": Check._date,
    "timestamp": Check._timestamp,
    "is null": lambda check, node: Expr("is null", BOOL, (check.expr(node.args[0]),)),
    "between": Check._between,
    "in": Check._in,
    "like": Check._like,
    "neg": Check._negative,
    "plus": Check._negative,
    "cast": Check._cast,
    "case": Check._case,
    "call": Check._call,
    **dict.fromkeys(("and", "or", "not"), Check._logic),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), Check._compare),
}
_CALLS: dict[str, Callable[[Check, str, Node], Expr]] = {
    "abs": lambda check, name, node: check._number_call(name, node.args[0]),
    "sqrt": lambda check, name, node: Expr(
        name, DOUBLE, tuple(converted(arg, DOUBLE) for arg in [check._number_call("plus", node.args[0])])
    ),
    "isnan": lambda check, name, node: Expr(
        name, BOOL, (check._typed(node.args[0], name, DOUBLE, pa.float32()),)
    ),
    "isnull": lambda check, name, node: check.expr(Node("is null", node.at, None, node.args)),
    "isnotnull": lambda check, name, node: Expr(
        "not", BOOL, (check.expr(Node("is null", node.at, None, node.args)),)
    ),
    "if": lambda check, name, node: check._case(node),
    "concat": lambda check, name, node: check._joined(list(map(check.expr, node.args))),
    "floor": Check._whole,
    "ceil": Check._whole,
    "nullif": Check._nullif,
    "length": Check._length,
    "left": Check._substring,
    "substring": Check._substring,
    "date_trunc": Check._trunc,
    "to_date": Check._to_date,
    **dict.fromkeys(("coalesce", "greatest", "least"), Check._several),
    **dict.fromkeys(("trim", "ltrim", "rtrim"), Check._text),
}
_MANY = 1000
_ARGUMENTS = {
    **dict.fromkeys(("coalesce", "concat"), (1, _MANY)), **dict.fromkeys(("greatest", "least"), (2, _MANY)),
    **dict.fromkeys(("nullif", "left", "date_trunc", "contains", "startswith", "endswith"), (2, 2)),
    "nvl": (2, 2), "ifnull": (2, 2), "if": (3, 3), "substring": (2, 3),
}  # fmt: skip
