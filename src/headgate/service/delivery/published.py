"""Results as a source: a tenant publishes a query, and other queries read its results like any source.

The rows of a committed batch are fed into a later batch, whose commit has the number of the next batch to feed: each row
is fed once. A row has the event time of the result; the result of a window has the last microsecond of the window, so it
lies in the window of the same size that a query over it has. No circle can arise: a query reads sources that were there
before it, and a published source comes after its query.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headgate import logs
from headgate.errors import CheckpointError, ConfigError, CursorGone, HeadgateError, NotFound
from headgate.service.delivery.publications import Publication
from headgate.service.manifest import BatchManifest
from headgate.service.results import Cursor, Page
from headgate.service.service import Service
from headgate.service.sources import ALL_SLOTS, Source
from headgate.service.table_file import RESULTS
from headgate.service.tenants import Tenant
from headgate.sources.source import Demand, Range, Ranges
from headgate.sources.source import Source as Reading
from headgate.sql.engine import Engine
from headgate.sql.prepare import bind
from headgate.sql.source_schema import NAME, TIME, TYPES, slot_type
from headgate.sql.template import Mode, Template

log = logs.logger("headgate.service")
PUBLISHED = "@results"
"""The name of the stream of published results: no source can have it."""
ALL = 1 << 62
ROW = pa.schema([("source", pa.int32()), (TIME, pa.timestamp("us")), *((s, slot_type(s)) for s in ALL_SLOTS)])
"""The row that all sources share."""


def publish(
    service: Service,
    tenant: Tenant,
    number: int,
    name: str,
    *,
    delay_s: float | None = None,
    rate: float = 1.0,
) -> Source:
    """Make the results of a tenant's query a source of the tenant, from the next batch on."""
    found = service.view_of(tenant.name, number)
    if found is None:
        raise ConfigError(
            f"query {number} is paused or has failed: resume it before its results are published"
        )
    view, template = found
    columns = columns_of(template, service)
    if delay_s is None:
        delay_s = _usual_delay_us(service, view.computation, template) / 1e6
    with service.lock:
        if name in service.sources.by_name:
            raise ConfigError(f"source {name!r} already exists: choose another name")
        # First the publication: if the process ends here, a publication without a source is nothing.
        service.published.add(Publication(name, tenant.name, number, service.last_batch + 1))
        try:
            declared = {"name": name, "columns": columns, "delay_s": delay_s, "rate": rate}
            (source,) = service.add_sources(tenant, [declared])
        except HeadgateError:
            service.published.remove(name)
            raise
        return source


def columns_of(template: Template, service: Service) -> dict[str, str]:
    """The columns of a template's results as a source declares them."""
    engine = Engine(service.settings.functions)
    try:
        schema = bind(template, engine)
    finally:
        engine.close()
    columns = dict[str, str]()
    for i, name in enumerate(template.names):
        kind = kind_of(schema.field(f"o{i}").type)
        if not NAME.fullmatch(name) or name == TIME or name in columns:
            raise ConfigError(
                f"the column {name!r} cannot be one of a source: give it another name with AS, of lower-case letters, digits "
                f"and _, and not {TIME!r}, which every source has"
            )
        if kind is None:
            raise ConfigError(
                f"the column {name!r} has a type that a source cannot have: cast it to one of {', '.join(TYPES)}"
            )
        columns[name] = kind
    return columns


def kind_of(kind: pa.DataType) -> str | None:
    """The type of a source's column that takes a type of Arrow; None if there is none.

    >>> [kind_of(t) for t in (pa.int32(), pa.decimal128(38, 0), pa.decimal128(9, 2), pa.date32(), pa.list_(pa.int64()))]
    ['bigint', 'bigint', 'double', 'timestamp', None]
    """
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return "bigint"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "double"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "varchar"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "timestamp"
    return None


def _usual_delay_us(service: Service, computation: int, template: Template) -> int:
    """How late a result may come, measured by its time: windows and last rows come in order, rows as they came."""
    if template.mode is not Mode.rows:
        return 0
    with service.lock:
        numbers = service.computations.by_id[computation].sources
        delays = [service.sources.by_name[service.sources.names[number]].delay_us for number in numbers]
    return max(delays) + template.horizon_us


def in_slots(page: Page, source: Source, template: Template) -> pa.Table:
    """The results of a page as rows of a source. A whole number beyond 64 bits is NULL."""
    rows = page.rows
    at = rows.column("at").cast(pa.int64()).to_numpy()
    time = at + (template.size_us - 1 if template.mode is Mode.panes else 0)
    columns: dict[str, Any] = {
        "source": pa.array([source.id] * rows.num_rows, pa.int32()),
        TIME: pa.array(time, pa.int64()).cast(pa.timestamp("us")),
    }
    slots = source.kind.slots
    for i, name in enumerate(template.names):
        if name in slots:
            columns[slots[name]] = _in_slot(rows.column(f"o{i}"), slot_type(slots[name]))
    nothing = {slot: pa.nulls(rows.num_rows, slot_type(slot)) for slot in ALL_SLOTS if slot not in columns}
    return pa.table({name: (columns | nothing)[name] for name in ROW.names}, schema=ROW)


def _in_slot(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_decimal(column.type) and pa.types.is_integer(kind):
        low, high = (pa.scalar(bound, pa.decimal128(38, 0)) for bound in (-(1 << 63), (1 << 63) - 1))
        fits = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
        column = pc.if_else(fits, column, pa.scalar(None, column.type))
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"), safe=False)
    return column.cast(kind)


class PublishedSource(Reading):
    """The results of committed batches as rows of the published sources. An offset is the next batch to feed.

    A range carries its rows, so a task needs nothing else to read it.
    """

    def __init__(self, service: Service) -> None:
        self._service: Service | None = service
        self._standing: int | None = None
        service.batch_log.needed_from = self._needed_from

    def __getstate__(self) -> dict[str, Any]:
        return {"_service": None, "_standing": None}

    def schema(self) -> pa.Schema:
        """The row that all sources share."""
        return ROW

    def identity(self) -> dict[str, Any]:
        """There is one in a service."""
        return {"source": "published"}

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        """The rows of the batches from the offset on, whole batches, until there are as many rows as wanted. What
        was removed before the oldest batch that is kept had been fed, or had no rows (`needed_from`).
        """
        assert self._service is not None, "it is planned where the service is"
        history = list(self._service.batch_log.history)
        following = history[-1].batch + 1 if history else 0
        first = history[0].batch if history else 0
        start = max(first, offset if offset is not None else self._begin(following))
        self._standing = start
        ranges, count = list[Range](), 0
        for batch in range(start, following):
            tables = list(self._rows(batch))
            rows = sum(table.num_rows for table in tables)
            if rows:
                ranges.append(Range(_encoded(pa.concat_tables(tables)), rows))
                count += rows
            if count >= demand.rows:
                return Ranges(tuple(ranges), batch + 1, more=batch + 1 < following)
        return Ranges(tuple(ranges), following)

    def _begin(self, following: int) -> int:
        """Where to begin if no batch has fed anything so far: with the first that a publication wants."""
        assert self._service is not None
        return min((one.since for one in self._service.published.by_source.values()), default=following)

    def _needed_from(self, last: BatchManifest) -> int | None:
        """The first batch whose results have not been fed after a commit; None if nothing is published."""
        assert self._service is not None
        if not self._service.published.by_source:
            return None
        known = [one for one in (last.offsets.get(PUBLISHED), self._standing) if one is not None]
        return max(known) if known else self._begin(last.batch + 1)

    def _rows(self, batch: int) -> Iterator[pa.Table]:
        assert self._service is not None
        service = self._service
        for one in list(service.published.by_source.values()):
            source = service.sources.by_name.get(one.source)
            if source is None or one.since > batch:
                continue
            try:
                found = service.view_of(one.tenant, one.query)
            except NotFound:
                continue  # the query was removed: the source stays, and is silent
            if found is None:
                continue
            view, template = found
            try:
                pages, _ = service.results.pages(view, template, Cursor(batch), ALL, Cursor(batch + 1))
            except (CheckpointError, CursorGone):
                if self._is_kept(batch):
                    raise
                continue  # it was removed after it had been fed, or had no rows
            for page in pages:
                try:
                    yield in_slots(page, source, template)
                except pa.ArrowException as error:  # one source may not stop the others
                    log.error("results of query %d do not fit source %r: %s", one.query, one.source, error)
                    service.published.misfits[one.source] = str(error)

    def _is_kept(self, batch: int) -> bool:
        """Whether the results of a batch are there, as far as it has any."""
        assert self._service is not None
        log = self._service.batch_log
        files = {file for kept in list(log.history) if kept.batch == batch for file in kept.result_files}
        return bool(files) and all(log.store.exists(f"{RESULTS}/{file}") for file in files)

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a range."""
        yield from pa.ipc.open_stream(pa.py_buffer(what)).read_all().to_batches()


def _encoded(rows: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return bytes(out.getvalue())
