"""DuckDB over Arrow tables, locked in: no files, no network, no settings, bounded memory, one thread.

Nothing is kept between calls: each statement sees the tables that it is given, and gives one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import finalize

import duckdb
import pyarrow as pa

from headgate.errors import ConfigError, QueryFailed
from headgate.sql.kind import NAME, TYPES

LOCKED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "disabled_optimizers": "join_order",  # it knows nothing of Arrow's columns: statements say the order
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "threads": "1",
    "TimeZone": "UTC",
}


@dataclass(frozen=True)
class Function:
    """A function that the operator of the service gives to queries: over Arrow arrays, vectorised."""

    name: str
    arguments: tuple[str, ...]
    returns: str
    call: Callable[..., Any]

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ConfigError(f"function {self.name!r}: a name is lower-case letters, digits and _")
        for kind in (*self.arguments, self.returns):
            if kind not in TYPES:
                raise ConfigError(f"function {self.name!r} has type {kind!r}: there is {', '.join(TYPES)}")


class Engine:
    """Evaluates statements of ours. Anything that goes wrong inside is QueryFailed. `close()` frees everything."""

    def __init__(self, functions: Mapping[str, Function] | None = None, *, memory: str = "512MB") -> None:
        config = {k: v for k, v in LOCKED.items() if k != "TimeZone"}
        self._connection: Any = duckdb.connect(":memory:", config={**config, "memory_limit": memory})
        for one in (functions or {}).values():
            kinds = [getattr(duckdb.sqltypes, kind.upper()) for kind in one.arguments]
            returns = getattr(duckdb.sqltypes, one.returns.upper())
            self._connection.create_function(
                one.name, one.call, kinds, returns, type="arrow", null_handling="special"
            )
        self._connection.execute("SET lock_configuration = true")
        self.close = finalize(self, self._connection.close)  # at the latest when the process ends, before its modules do

    def give(self, **tables: pa.Table) -> None:
        """Make tables known by name, in place of what had the name."""
        for name, table in tables.items():
            self._connection.register(name, table)

    def ask(self, sql: str, **tables: pa.Table) -> pa.Table:
        """The answer to a statement over these tables and those given before."""
        try:
            self.give(**tables)
            return self._connection.sql(sql).to_arrow_table()
        except (duckdb.Error, pa.ArrowException, RuntimeError) as error:
            raise QueryFailed(_gist(error)) from error

    def interrupt(self) -> None:
        """Stop the statement that another thread is running."""
        self._connection.interrupt()


def _gist(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
