"""The service without Spark: batches are tables that a test hands over, tasks run one after the other in this process."""

from collections import Counter
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from tests.sql.world import KIND, NAMES, plain

from headgate.service.queries import Query
from headgate.service.service import Service, Settings
from headgate.sql.source_schema import slot_type

_attempts = count()


def local_job(rows, hosted, task):
    """What Spark does: each row to the servers that want its source, a task for each server."""
    source = rows.column("source").to_numpy()
    rows = rows.select(
        [
            "source",
            "time",
            *(n for n in task.rows.names if n in rows.column_names and n not in ("source", "time")),
        ]
    )
    for name in task.rows.names:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, slot_type(name)))
    answers = []
    for server in range(hosted.servers):
        mine = np.array([server in hosted.wanted[s] for s in source.tolist()], bool)
        part = rows.select(task.rows.names).filter(pa.array(mine))
        answers.append(task.answer(part.to_batches(), server, next(_attempts)))
    answers[0] |= {
        "sent_rows": sum(a.get("rows", 0) for a in answers),
        "sent_bytes": 100 * sum(a.get("rows", 0) for a in answers),
    }
    return answers


class Local:
    """A service in a folder, with its three sources and one tenant; `restart` begins again from what is on disk."""

    def __init__(self, folder, **settings) -> None:
        self.folder, self.settings = folder, settings
        self.start()
        self.token = self.service.tenants.add("ann")
        self.ann = self.service.tenants.of(self.token)
        columns = dict(KIND.columns)
        self.service.add_sources(self.ann, [{"name": n, "columns": columns, "delay_s": 5} for n in NAMES])
        self.batch = 0

    def start(self) -> None:
        self.service = Service(Settings(self.folder, **{"servers": 3, **self.settings}), local_job)

    def restart(self) -> None:
        self.service.close()
        self.start()

    def add(self, *texts):
        """Register; returns numbers."""
        queries = self.service.register(self.ann, [(text, "") for text in texts])
        assert all(isinstance(query, Query) for query in queries), queries
        return [query.id for query in queries if isinstance(query, Query)]

    def feed(self, rows) -> None:
        self.service.serving(rows, self.batch)
        self.batch += 1

    def answers(self, number, limit=7):
        """All results of a query as a multiset, read page by page."""
        found, cursor = Counter[tuple[Any, ...]](), None
        while True:
            rows, following = self.service.read(self.ann, number, cursor, limit)
            found.update(tuple(plain(v) for v in row["values"].values()) for row in rows)
            if not rows:
                return found
            cursor = following
