"""Which keys hold a stage back: by a sample of the input, or by what the state data source shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headgate.doctor.spark_hash import partition_of
from headgate.errors import ConfigError, MissingColumn
from headgate.routing.key_hash import hash_key

MOST_ROWS = 2_000_000
SHOWN = 5
_FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}


@dataclass(frozen=True)
class HotKey:
    """A key with a large share of the rows, and the partition in which native Spark keeps it."""

    key: str
    share: float
    partition: int | None


@dataclass(frozen=True)
class Sample:
    """Keys of a sample: hash and count of each, and the most frequent ones."""

    rows: int
    counts: Mapping[str, tuple[int, int]]
    hot: tuple[HotKey, ...]
    where: str
    weighs: bool = True
    """Whether counts are those of rows. State that has one row for each key does not tell them."""


def read_state(checkpoint: str, partitions: int) -> Sample:
    """Count the rows of state of each key, by Spark's state data source.

    A join keeps a row for each row of the input that waits. Most other operators keep one for each
    key: then which key is hot cannot be seen, and only how keys are spread is.
    """
    from headgate.spark.doctoring import read_state_keys

    found = counted(read_state_keys(checkpoint, MOST_ROWS), partitions, where=f"the state in {checkpoint}")
    several = any(number > 1 for _, number in found.counts.values())
    return found if several else replace(found, weighs=False, hot=())


def read_sample(path: str, key: Sequence[str], partitions: int) -> Sample:
    """Count the keys in Parquet, JSON-lines or CSV files, at most two million rows of them."""
    place = Path(path)
    files = sorted(f for f in place.rglob("*") if f.suffix in _FORMATS) if place.is_dir() else [place]
    if not files or not files[0].exists():
        raise ConfigError(f"--sample {path}: there is no such file, or no .parquet, .json or .csv file in it")
    form = _FORMATS.get(files[0].suffix)
    if form is None:
        raise ConfigError(f"--sample {path}: give a .parquet, .json or .csv file, or a folder of such files")
    data = ds.dataset([str(f) for f in files if _FORMATS.get(f.suffix) == form], format=form)
    missing = [name for name in key if name not in data.schema.names]
    if missing or not key:
        wanted = f"has no column {missing[0]!r}" if missing else "needs the key's columns"
        raise MissingColumn(
            f"--sample {path} {wanted}: name columns with --key; it has {', '.join(data.schema.names)}"
        )
    return counted(data.head(MOST_ROWS, columns=list(key)), partitions, where=f"a sample, {path}")


def counted(rows: pa.Table, partitions: int, *, where: str) -> Sample:
    """Count the keys that are the columns of a table."""
    names, types = rows.column_names, [field.type for field in rows.schema]
    grouped = rows.append_column("_", pa.array([1] * len(rows), pa.int64())).group_by(names)
    tallied = grouped.aggregate([("_", "sum")]).sort_by([("__sum", "descending")])
    columns = [tallied[name].to_pylist() for name in names]
    counts: dict[str, tuple[int, int]] = {}
    hot: list[HotKey] = []
    total = max(1, pc.sum(tallied["__sum"]).as_py() or 0)
    for values, number in zip(zip(*columns, strict=True), tallied["__sum"].to_pylist(), strict=True):
        label = label_of(values)
        counts[label] = (hash_key(values[0] if len(values) == 1 else values), number)
        if len(hot) < SHOWN:
            partition = partition_of(values, types, partitions) if partitions else None
            hot.append(HotKey(label, number / total, partition))
    return Sample(len(rows), counts, tuple(hot), where)


def label_of(values: Sequence[Any]) -> str:
    """A key for people.

    >>> label_of([7]), label_of(["a", 1])
    ('7', 'a, 1')
    """
    return ", ".join(str(value) for value in values)
