"""The service without Spark: a test hands over batches as tables, and tasks run one after the other in this process."""

import json
from collections import Counter
from itertools import count

import numpy as np
import pyarrow as pa
from tests.sql.world import KIND, NAMES, plain

from headgate.service.batch.processor import BatchProcessor
from headgate.service.batch.report import JobReport, ServerReport
from headgate.service.queries import Query
from headgate.service.service import Service
from headgate.service.settings import Settings
from headgate.sql.limits import Limits
from headgate.sql.source_schema import slot_type

_attempts = count()
PATIENT = Limits(batch_part=1e9)
"""With these a busy machine is no reason to put work off."""


def local_job(rows, snapshot, task):
    """What Spark does: each row goes to the servers that want its source, and a task runs for each server."""
    source = rows.column("source").to_numpy()
    for name in task.row_schema.names:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, slot_type(name)))
    rows = rows.select(task.row_schema.names)
    reports = []
    for server in range(snapshot.servers):
        wanted = np.array([server in snapshot.servers_of_source[s] for s in source.tolist()], bool)
        part = rows.filter(pa.array(wanted))
        body = json.dumps(task.run_server(part.to_batches(), server, next(_attempts)))
        reports.append(ServerReport.from_json(json.loads(body)))
    sent = sum(report.rows for report in reports)
    return JobReport(reports, sent_rows=sent, sent_bytes=100 * sent)


class Local:
    """A service in a folder, with three sources and one tenant; `restart` starts it again from what is on disk."""

    tasks: int | None = None
    """How many tasks share the servers; None for one each."""

    def __init__(self, folder, **settings) -> None:
        self.folder, self.settings = folder, settings
        self.start()
        self.token = self.service.add_tenant("ann")
        self.ann = self.service.authenticate(self.token)
        columns = dict(KIND.columns)
        self.service.add_sources(self.ann, [{"name": n, "columns": columns, "delay_s": 5} for n in NAMES])
        self.batch = 0

    def start(self) -> None:
        self.service = Service(Settings(self.folder, **{"servers": 3, "limits": PATIENT, **self.settings}))
        self.processor = BatchProcessor(self.service, local_job, tasks=self.tasks)

    def restart(self) -> None:
        self.service.close()
        self.start()

    def add(self, *texts):
        """Register queries; returns their numbers."""
        registered = self.service.register(self.ann, [(text, "") for text in texts])
        return [query.id for query in registered if isinstance(query, Query)]

    def feed(self, rows) -> None:
        self.processor.process(rows, self.batch)
        self.batch += 1

    def answers(self, number, limit=7):
        """All results of a query as a multiset, read page by page."""
        return self.answers_of(self.ann, number, limit)

    def answers_of(self, tenant, number, limit=7):
        """The same for a query of another tenant."""
        answers: Counter[tuple[object, ...]] = Counter()
        cursor = None
        while True:
            rows, following = self.service.read(tenant, number, cursor, limit)
            answers.update(tuple(plain(v) for v in row["values"].values()) for row in rows)
            if not rows:
                return answers
            cursor = following


def moments(counter):
    """A multiset of rows with their times as the service writes them."""
    return {
        tuple(v.isoformat() + "Z" if hasattr(v, "isoformat") else plain(v) for v in row): n
        for row, n in counter.items()
    }
