"""How texts are parsed: DuckDB's SQL, in which every function keeps the name that the user wrote.

The parser has classes of its own for hundreds of functions, and forgets what was written. Here it knows none of them: a
call is a name and its arguments, and `functions` says what the name means.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

_FORMS = ("CAST", "TRY_CAST", "EXTRACT", "SUBSTRING", "TRIM")
"""Functions whose arguments have words between them."""


class Plain(DuckDB):
    """DuckDB's SQL without the parser's own functions, paths and counting of lists."""

    INDEX_OFFSET = 0

    def to_json_path(self, path: Any) -> Any:
        """The path as it was written."""
        return path

    class Parser(DuckDB.Parser):  # type: ignore[misc, valid-type]
        """Knows no function but those with words between their arguments."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS = {k: v for k, v in DuckDB.Parser.FUNCTION_PARSERS.items() if k in _FORMS}  # noqa: RUF012
        LAMBDAS: ClassVar[dict[Any, Any]] = {}  # an arrow is a path into a document
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, type[exp.Expression]]] = {}
        NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
            k: v for k, v in DuckDB.Parser.NO_PAREN_FUNCTION_PARSERS.items() if k in ("CASE", "ANY")
        }

        def expression(self, instance: Any, *arguments: Any, **named: Any) -> Any:
            """A node. One that has nothing below it, such as NULL, gets the place of the word that was read last."""
            made = super().expression(instance, *arguments, **named)
            if "start" not in made.meta and self._prev is not None and not any(_below(made)):
                made.update_positions(self._prev)
            return made


def _below(node: exp.Expression) -> Iterator[bool]:
    """Whether each node below this one has a place."""
    return ("start" in one.meta for one in node.walk() if one is not node)


logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it would write texts of tenants into the log
DIALECT = Plain()
