"""A parcel: some results of a query, as they go to a target together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headgate.service.delivery.orders import Delivery, own_columns
from headgate.service.results import Page, result_json, rows_of
from headgate.sql.template import Mode, Template

MOMENT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Parcel:
    """Results between two cursors. A parcel that is sent again has the same number, id and results."""

    delivery: Delivery
    number: int
    following: str
    """The cursor after it."""
    template: Template | None
    """None if the parcel is empty: its results were skipped, and only its number is used up."""
    pages: Sequence[Page]
    again: bool = False
    """Whether it may have been sent before."""

    @property
    def id(self) -> str:
        """The same for the same results, and unlike that of any other parcel."""
        return f"{self.delivery.uid}-{self.number}"

    @property
    def count(self) -> int:
        """How many results it has."""
        return sum(page.rows.num_rows for page in self.pages)

    def results(self) -> list[dict[str, Any]]:
        """The results as the HTTP API shows them."""
        if self.template is None:
            return []
        query = self.delivery.query
        return [
            result_json(row, self.template, query, page.batch)
            for page in self.pages
            for row in rows_of(page.rows)
        ]

    def table(self) -> pa.Table:
        """The results as rows of a table, each with its query, batch, and time or window."""
        assert self.template is not None
        return pa.concat_tables([_as_table(page, self.template, self.delivery.query) for page in self.pages])


def _as_table(page: Page, template: Template, query: int) -> pa.Table:
    rows = page.rows
    count = rows.num_rows
    at = rows.column("at").cast(pa.int64()).to_numpy()
    begun = pa.array(at, pa.int64()).cast(MOMENT)
    own = [pa.array([query] * count, pa.int64()), pa.array([page.batch] * count, pa.int64()), begun]
    if template.mode is Mode.panes:
        own.append(pa.array(at + template.size_us, pa.int64()).cast(MOMENT))
    columns = dict(zip(own_columns(template), own, strict=True))
    for i, name in enumerate(template.names):
        column = rows.column(f"o{i}")
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us")).cast(MOMENT)  # times of the service are UTC
        columns[name] = column
    return pa.table(columns)
