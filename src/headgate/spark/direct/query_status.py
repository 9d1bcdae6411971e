"""The state of a query at one moment, for people."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.stage.shown import as_html, html_lines
from headgate.stage.status import Status
from headgate.streams.drive import Progress


@dataclass(frozen=True)
class QueryStatus:
    """The state of a query at one moment. It prints well."""

    state: str
    """running, ended, stopped or failed"""
    last: Progress | None
    stages: tuple[Status, ...]
    error: str = ""

    def __str__(self) -> str:
        line = f"{self.state}"
        if self.last is not None:
            line += f", batch {self.last.batch}: {self.last.rows:,} rows in {self.last.batch_ms:,.0f} ms"
        if self.error:
            line += f"\n{self.error}"
        return "\n".join([line, *map(str, self.stages)])

    def _repr_html_(self) -> str:
        first, *error = str(self).splitlines()[: 2 if self.error else 1]
        said = as_html(html_lines(first, tag="b"), html_lines(*error))
        return said + "".join(stage._repr_html_() for stage in self.stages)
