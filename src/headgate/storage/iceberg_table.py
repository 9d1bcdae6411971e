"""An Iceberg table that gets the batches of stages, each exactly once. No jar: pyiceberg does the work.

A batch is one commit of the table: a snapshot with its rows, whose summary names the stage and the batch, and
the number of the batch as a property of the table, because old snapshots may be expired. A commit demands
that the newest snapshot is still the one from which it was made, so of two drivers with the same batch the
second is refused, and then finds that the batch is there. Pyiceberg would make a refused commit anew from the newest
snapshot, without that look; so it is told not to.

Files that tasks have written become part of the table as they are, unless the table is partitioned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from headgate.errors import ConfigError, required
from headgate.storage import published
from headgate.storage.adopt import bring
from headgate.storage.columns_fit import bare, filled, newest_rows
from headgate.storage.iceberg_catalog import open_catalog
from headgate.storage.iceberg_compact import Compaction
from headgate.storage.lake_table import ATTEMPTS, LakeTable
from headgate.storage.parquet_folder import Owner
from headgate.storage.published import StagedBatch
from headgate.storage.store import Store

LISTED = 1000
"""Up to so many values of a key column are looked for one by one; beyond, all between the least and the largest."""
SMALL = (pa.int8(), pa.int16(), pa.uint8(), pa.uint16())
"""Types that Iceberg does not have; their values become 32-bit integers."""


class IcebergTable(LakeTable):
    """A table in a catalog of Iceberg: `shop.users`."""

    failures = (Exception,)

    def __init__(
        self,
        table: str,
        *,
        catalog: Any = None,
        partition_by: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        first: int | None = None,
    ) -> None:
        super().__init__(partition_by, properties, first)
        required("pyiceberg", "an Iceberg table")
        self.errors = required("pyiceberg.exceptions", "an Iceberg table")
        self.conflicts = (self.errors.CommitFailedException, self.errors.TableAlreadyExistsError)
        self.passed = (self.errors.NoSuchTableError, self.errors.NoSuchNamespaceError)
        self.name, self.catalog = table, open_catalog(catalog)

    @property
    def place(self) -> str:
        """What messages call it."""
        return f"the Iceberg table {self.name}"

    def open(self) -> Any:
        """The table (`pyiceberg.table.Table`) as it is now; None if there is none."""
        with self._translated("cannot be read"):
            try:
                table = self.catalog.load_table(self.name)
            except self.passed:
                return None
        # In memory only: a refused commit has to be looked at here, and not made anew by pyiceberg.
        once = {**table.metadata.properties, "commit.retry.num-retries": "0"}
        table.metadata = table.metadata.model_copy(update={"properties": once})
        return table

    def recorded(self, table: Any, name: str) -> int | None:
        """The number in a property of the table."""
        found = table.properties.get(name)
        return None if found is None else int(found)

    # -- before the first batch

    def _converted(self, schema: pa.Schema) -> Any:
        wider = _widened(schema)
        required("pyiceberg.io.pyarrow", "an Iceberg table")._pyarrow_to_schema_without_ids(wider)
        return wider

    def _types(self, schema: Any) -> dict[str, str]:
        """Large types and plain ones are the same to Iceberg."""
        return {
            field.name: str(field.type).replace("large_", "").replace("<item: ", "<element: ")
            for field in schema
        }

    def _columns(self, table: Any) -> tuple[dict[str, str], list[str]]:
        has = table.schema()
        return self._types(has.as_arrow()), [field.name for field in has.fields if field.required]

    def _check_settings(self, table: Any, key: Sequence[str]) -> None:
        has = {field.name for field in table.schema().fields}
        self._check_new(table, [field.name for field in self._schema if field.name not in has])

    def _partitions(self, table: Any) -> list[str]:
        """The columns of the partitions; a transformed one with its transformation."""
        has = table.schema()
        return [
            has.find_column_name(field.source_id) if str(field.transform) == "identity" else field.name
            for field in table.spec().fields
        ]

    def _enter(self, table: Any, owner: Owner, begin: int) -> None:
        if table is None:
            return self._create(owner, begin)
        return self._commit(table, owner, begin)

    def _create(self, owner: Owner, begin: int) -> None:
        space = self.name.rpartition(".")[0]
        if space:
            self.catalog.create_namespace_if_not_exists(space)
        with self.catalog.create_table_transaction(
            self.name, schema=self._schema, properties={**self.properties, **_record(owner, begin)}
        ) as change:
            if self.partition_by:
                with change.update_spec() as spec:
                    for name in self.partition_by:
                        spec.add_identity(name)

    # -- a batch

    def _write(self, table: Any, batch: StagedBatch, key: Sequence[str]) -> None:
        if not batch.files:
            return self._commit(table, batch.owner, batch.number)
        if key:
            return self._upsert(table, batch, key)
        if table.spec().is_unpartitioned() and _widened(batch.schema).equals(bare(batch.schema)):
            return self._adopt(table, batch)
        return self._append(table, batch)

    def _add_columns(self, table: Any, schema: pa.Schema) -> bool:
        has = {field.name for field in table.schema().fields}
        new = [field for field in _widened(schema) if field.name not in has]
        self._check_new(table, [field.name for field in new])
        if new:
            with table.update_schema() as change:
                change.union_by_name(pa.schema(new))
        return bool(new)

    def _check_new(self, table: Any, names: Sequence[str]) -> None:
        """Refuse a new column with the name of one that was renamed or dropped. Adopted files know their columns by
        name, so their old values would appear in it.
        """
        former = {field.name for schema in table.metadata.schemas for field in schema.fields}
        for name in names:
            if name in former:
                raise ConfigError(
                    f"{self.place} had a column {name!r}, which was renamed or dropped. A new one of that name would show its old "
                    "values: give the output's column another name, or the table's column its old one"
                )

    def _adopt(self, table: Any, batch: StagedBatch) -> None:
        """Commit the files of the tasks."""
        folder = Store(f"{table.location().rstrip('/')}/data")
        folder.make("")
        names = self._bring_all(batch, lambda file: bring(batch, file, folder))
        if names is None:
            return
        folder.flush("")
        paths = [f"{folder.url}/{name}" for name in names]
        with self._change(table, batch.owner, batch.number) as (change, summary):
            change.add_files(paths, snapshot_properties=summary, check_duplicate_files=False)

    def _append(self, table: Any, batch: StagedBatch) -> None:
        """Write the rows again, as the table wants its files."""
        rows = self._rows(table, batch)
        with self._change(table, batch.owner, batch.number) as (change, summary):
            change.append(rows, snapshot_properties=summary)

    def _upsert(self, table: Any, batch: StagedBatch, key: Sequence[str]) -> None:
        """Replace all rows that may have a key of the batch by the newest row of each of their keys."""
        rows = newest_rows(self._rows(table, batch), key)
        where = _touched(rows, key)
        old = table.scan(row_filter=where).to_arrow().cast(rows.schema)
        merged = newest_rows(pa.concat_tables([old, rows]), key)
        with self._change(table, batch.owner, batch.number) as (change, summary):
            if old.num_rows:
                change.overwrite(merged, overwrite_filter=where, snapshot_properties=summary)
            else:
                change.append(merged, snapshot_properties=summary)

    def _rows(self, table: Any, batch: StagedBatch) -> pa.Table:
        """The rows with the columns of the table, those that the output lacks as nulls."""
        return filled(batch.rows().cast(_widened(batch.schema)), table.schema().as_arrow())

    def compact(self) -> dict[str, Any]:
        """Merge small files into larger ones; how many were removed and added."""
        if self.open() is None:
            raise ConfigError(f"{self.place} does not exist")
        compaction = Compaction(self.open, self.conflicts)
        if not compaction.run(ATTEMPTS):
            raise self._busy()
        return {"numFilesAdded": compaction.added, "numFilesRemoved": compaction.removed}

    def _commit(self, table: Any, owner: Owner, number: int) -> None:
        """Record a batch without rows."""
        empty = bare(table.schema().as_arrow()).empty_table()
        with self._change(table, owner, number) as (change, summary):
            change.append(empty, snapshot_properties=summary)

    @contextmanager
    def _change(self, table: Any, owner: Owner, number: int) -> Iterator[tuple[Any, dict[str, str]]]:
        """A transaction that records the batch, and the summary for its snapshot."""
        summary = {"headgate.stage": published.name_of(owner), "headgate.batch": str(number)}
        with table.transaction() as change:
            change.set_properties(_record(owner, number))
            yield change, summary


def _record(owner: Owner, number: int) -> dict[str, str]:
    return {name: str(number) for name in (published.name_of(owner), published.address_of(owner))}


def _widened(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [pa.field(field.name, pa.int32() if field.type in SMALL else field.type) for field in schema]
    )


def _touched(rows: pa.Table, key: Sequence[str]) -> Any:
    """A filter that lets every row through that has a key of the batch, and perhaps others."""
    import pyarrow.compute as pc  # only a driver that upserts needs it

    expressions = required("pyiceberg.expressions", "an Iceberg table")
    parts = []
    for name in key:
        column = rows.column(name)
        values = pc.unique(column.drop_null())
        if len(values) <= LISTED:
            part = expressions.In(name, set(values.to_pylist())) if len(values) else expressions.AlwaysFalse()
        else:
            least, most = (pc.min_max(values)[end].as_py() for end in ("min", "max"))
            part = expressions.And(
                expressions.GreaterThanOrEqual(name, least), expressions.LessThanOrEqual(name, most)
            )
        if column.null_count:
            part = expressions.Or(part, expressions.IsNull(name))
        parts.append(part)
    return parts[0] if len(parts) == 1 else expressions.And(*parts)
