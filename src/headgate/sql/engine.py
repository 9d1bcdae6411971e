"""DuckDB over Arrow tables, locked down: no files, no network, no settings,
bounded memory, one thread.

No state is kept between calls: a statement reads the tables that it is given and returns one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import finalize, proxy

import duckdb
import pyarrow as pa

from headgate.errors import ConfigError, QueryFailed
from headgate.sql.distinct import MACROS
from headgate.sql.like import NAME as LIKE
from headgate.sql.like import like_arrays
from headgate.sql.regex import EXTRACT, MATCHES, REPLACE, regex_arrays
from headgate.sql.source_schema import NAME, TYPES

LOCKED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "disabled_optimizers": "join_order",  # unused here: statements state their own order
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "threads": "1",
    "TimeZone": "UTC",
}

ROWS_AT_ONCE = 1 << 17
"""How many rows an Arrow batch of a result has at most."""


@dataclass(frozen=True)
class Function:
    """A function that the operator of the service offers to queries. It works on whole Arrow arrays."""

    name: str
    arguments: tuple[str, ...]
    returns: str
    call: Callable[..., Any]

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ConfigError(f"function {self.name!r}: a name has lower-case letters, digits and _")
        for kind in (*self.arguments, self.returns):
            if kind not in TYPES:
                raise ConfigError(
                    f"function {self.name!r} has type {kind!r}; the types are {', '.join(TYPES)}"
                )


class Engine:
    """Evaluates statements that this package wrote. Every failure inside is QueryFailed.
    `close()` frees everything.
    """

    def __init__(self, functions: Mapping[str, Function] | None = None, *, memory: str = "512MB") -> None:
        self._functions, self._memory = dict(functions or {}), memory
        self._given = dict[str, pa.Table]()
        self._interrupted = False
        self.starved = False
        """Whether the last statement failed for want of memory."""
        self._open()

    def _open(self) -> None:
        config = {k: v for k, v in LOCKED.items() if k != "TimeZone"}
        self._held: list[Any] = [duckdb.connect(":memory:", config={**config, "memory_limit": self._memory})]
        text, truth = duckdb.sqltypes.VARCHAR, duckdb.sqltypes.BOOLEAN
        stopped = partial(getattr, proxy(self), "_interrupted")
        ours = {LIKE: like_arrays(stopped), **regex_arrays(stopped)}
        types = {
            LIKE: ([text, text], truth),
            MATCHES: ([text, text, text], truth),
            EXTRACT: ([text, text, duckdb.sqltypes.BIGINT, text], text),
            REPLACE: ([text, text, text, text], text),
        }
        for name, (takes, gives) in types.items():
            self._connection.create_function(
                name, ours[name], takes, gives, type="arrow", null_handling="special"
            )
        for macro in MACROS:
            self._connection.execute(macro)
        for function in self._functions.values():
            kinds = [getattr(duckdb.sqltypes, kind.upper()) for kind in function.arguments]
            returns = getattr(duckdb.sqltypes, function.returns.upper())
            self._connection.create_function(
                function.name, function.call, kinds, returns, type="arrow", null_handling="special"
            )
        self._connection.execute("SET lock_configuration = true")
        self.close = finalize(self, _close, self._held)
        """At the latest when the process ends, before its modules do."""

    @property
    def _connection(self) -> Any:
        if not self._held:
            raise QueryFailed("the engine is closed")
        return self._held[0]

    def renew(self) -> None:
        """Give all memory back that the engine holds, and go on with the same tables."""
        self.close()
        self._open()
        self.give(**self._given)

    def give(self, **tables: pa.Table) -> None:
        """Register tables by name, replacing earlier tables of the same name."""
        for name, table in tables.items():
            try:
                self._connection.register(name, table)
            except duckdb.Error as error:  # it may be interrupted too
                raise QueryFailed(_gist(error)) from error
            self._given[name] = table

    def ask(self, sql: str, **tables: pa.Table) -> pa.Table:
        """The result of a statement over the registered tables."""
        self._interrupted = self.starved = False
        try:
            self.give(**tables)
            return self._run(sql)
        except (duckdb.Error, pa.ArrowException, MemoryError, RuntimeError) as error:
            self.starved = isinstance(error, duckdb.OutOfMemoryException | MemoryError)
            raise QueryFailed(_gist(error)) from error

    def _run(self, sql: str) -> pa.Table:
        """A relation binds a statement twice, which takes as long as to run it over few rows, so it is the second choice."""
        submit = getattr(self._connection, "_submit", None)
        if submit is None:
            return self._connection.sql(sql).to_arrow_table()
        return submit(sql, None, "arrow", ROWS_AT_ONCE).arrow_table()

    def interrupt(self) -> None:
        """Stop the statement that another thread is running."""
        self._interrupted = True
        for connection in list(self._held):
            connection.interrupt()


def _close(held: list[Any]) -> None:
    """Close a connection and forget it: the binding reports those that are known when the process ends as leaks."""
    while held:
        held.pop().close()


def _gist(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
