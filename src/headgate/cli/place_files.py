"""Queries and sources from files, assignments to files: CSV, JSON, JSON lines, Parquet.

Queries: columns ``query`` and ``sources`` (a list; in CSV separated by ";"), or one row for each
``query`` and ``source``; ``cost`` is optional. Sources: ``source`` and ``rate``; without a file of
them, every source that a query names has rate 1.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet
from pyarrow import json as lines

from headgate.errors import ConfigError
from headgate.hosting.workload import Floats, Workload

FORMATS = (".csv", ".json", ".jsonl", ".parquet")


def read_table(path: Path) -> Any:
    """Return a file as an Arrow table."""
    if not path.exists():
        raise ConfigError(f"there is no file {path}")
    kind = path.suffix.lower()
    try:
        if kind == ".parquet":
            return parquet.read_table(path)
        if kind == ".csv":
            return csv.read_csv(path, convert_options=csv.ConvertOptions(null_values=[""]))
        if kind == ".jsonl":
            return lines.read_json(path)
        if kind == ".json":
            return pa.Table.from_pylist(_records(json.loads(path.read_text(encoding="utf-8")), path))
    except (pa.ArrowInvalid, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    raise ConfigError(f"{path}: the file name must end in one of {', '.join(FORMATS)}")


def _records(data: Any, path: Path) -> list[dict[str, Any]]:
    """Return rows from a list of objects, or from an object of query -> sources or source -> rate."""
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        return data
    if isinstance(data, dict):
        rates = all(isinstance(value, int | float) for value in data.values())
        names = ("source", "rate") if rates else ("query", "sources")
        return [dict(zip(names, pair, strict=True)) for pair in data.items()]
    raise ConfigError(f"{path}: give a list of objects, or one object of names")


def column(table: Any, name: str, path: Path) -> Any:
    """Return a column without nulls."""
    if name not in table.column_names:
        raise ConfigError(f"{path} has no column {name!r}: it has {', '.join(table.column_names) or 'none'}")
    values = table.column(name).combine_chunks()
    if values.null_count:
        row = int(pc.index(pc.is_null(values), True).as_py()) + 1
        raise ConfigError(f"{path}, row {row}: {name!r} is empty")
    return values


def read_rates(path: Path) -> dict[str, float]:
    """Return rates by source."""
    table = read_table(path)
    names = pc.cast(column(table, "source", path), pa.string()).to_pylist()
    rates = numbers(column(table, "rate", path), "rate", path)
    _check_unique(names, "source", path)
    for name, rate in zip(names, rates.tolist(), strict=True):
        if not np.isfinite(rate) or rate < 0:
            raise ConfigError(f"{path}: the rate of source {name!r} is {rate:g}; give a number, 0 or more")
    return dict(zip(names, rates.tolist(), strict=True))


def numbers(values: Any, name: str, path: Path) -> Floats:
    """Return a column of numbers."""
    try:
        floats: Floats = pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise ConfigError(f"{path}: column {name!r} has values that are not numbers: {error}") from error
    return floats


def _check_unique(names: list[str], kind: str, path: Path) -> None:
    if len(set(names)) < len(names):
        seen: set[str] = set()
        duplicate = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ConfigError(f"{path}: {kind} {duplicate!r} occurs twice")


def read_workload(path: Path, sources: Path | None) -> Workload:
    """Return the workload of a file of queries and, if given, one of sources."""
    table = read_table(path)
    if table.num_rows == 0:
        raise ConfigError(f"{path} holds no query")
    rates = read_rates(sources) if sources else None
    names = pc.cast(column(table, "query", path), pa.string())
    cost = (
        numbers(column(table, "cost", path), "cost", path)
        if "cost" in table.column_names
        else np.ones(len(names))
    )
    if "sources" in table.column_names:
        _check_unique(names.to_pylist(), "query", path)
        lists = column(table, "sources", path)
        if pa.types.is_string(lists.type):
            lists = pc.split_pattern(lists, ";")
        member = pc.utf8_trim_whitespace(pc.cast(pc.list_flatten(lists), pa.string()))
        owner = pc.list_parent_indices(lists).to_numpy()
        query_names = names.to_pylist()
    else:
        member = pc.cast(column(table, "source", path), pa.string())
        coded = pc.dictionary_encode(names)
        query_names, owner = coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)
        first = np.unique(owner, return_index=True)[1]
        cost = cost[first]
    return built(query_names, owner, member, cost, rates, path)


def built(
    query_names: list[str], owner: Any, member: Any, cost: Floats, rates: dict[str, float] | None, path: Path
) -> Workload:
    """Return the workload of (query, source) pairs; an error names the first query that is not valid."""
    coded = pc.dictionary_encode(member)
    mentioned = coded.dictionary.to_pylist()
    named = list(rates) if rates is not None else mentioned
    number = {name: i for i, name in enumerate(named)}
    code = (
        np.array([number.get(name, -1) for name in mentioned], np.int64)[coded.indices.to_numpy()]
        if mentioned
        else np.zeros(0, np.int64)
    )
    owner = np.asarray(owner, np.int64)
    unknown = np.flatnonzero((code < 0) | (member.to_numpy(zero_copy_only=False) == ""))
    if unknown.size:
        at = int(unknown[0])
        name = member[at].as_py()
        why = "which is not among the sources" if name else "an empty name"
        raise ConfigError(f"{path}: query {query_names[owner[at]]!r} reads source {name!r}, {why}")
    held = np.bincount(owner, minlength=len(query_names))
    if len(query_names) and held.min() == 0:
        raise ConfigError(f"{path}: query {query_names[int(held.argmin())]!r} has no source")
    bad = np.flatnonzero(~np.isfinite(cost) | (cost <= 0))
    if bad.size:
        raise ConfigError(
            f"{path}: the cost of query {query_names[int(bad[0])]!r} is {cost[bad[0]]:g}; give a number above 0"
        )
    pair = np.unique(owner * max(len(named), 1) + code)
    start = np.zeros(len(query_names) + 1, np.int64)
    np.cumsum(np.bincount(pair // max(len(named), 1), minlength=len(query_names)), out=start[1:])
    rate = np.array([1.0 if rates is None else rates[name] for name in named])
    return Workload(rate, start, pair % max(len(named), 1), cost, named, query_names)


def write_assignment(path: Path, load: Workload, server_of: Any) -> None:
    """Write query and server, one row each."""
    table = pa.table({"query": pa.array(load.query_names), "server": pa.array(server_of, pa.int64())})
    kind = path.suffix.lower()
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == ".csv":
        csv.write_csv(table, path)
    elif kind == ".parquet":
        parquet.write_table(table, path)
    elif kind == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()), encoding="utf-8")
    elif kind == ".json":
        path.write_text(
            json.dumps(dict(zip(load.query_names or (), map(int, server_of), strict=True)), indent=0),
            encoding="utf-8",
        )
    else:
        raise ConfigError(f"{path}: the file name must end in one of {', '.join(FORMATS)}")
