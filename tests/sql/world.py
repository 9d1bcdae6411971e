# ruff: noqa: E501 (queries)
"""A world for tests of shared execution: sources, rows, computations; the service's way and the plain way of answering."""

import atexit
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from headgate.sql.clock import NEVER, Clock, after
from headgate.sql.engine import Engine
from headgate.sql.join_state import keep
from headgate.sql.prepare import Preparer
from headgate.sql.shared import Piece, Work, step
from headgate.sql.source_schema import SourceSchema

KIND = SourceSchema({"x": "double", "city": "varchar", "n": "bigint"})
NAMES = ("alpha", "beta", "gamma")
KINDS = dict.fromkeys(NAMES, KIND)
SECOND = 1_000_000
DELAY = 5 * SECOND
PREPARER, ENGINE = Preparer(), Engine()
PLAIN = duckdb.connect()
atexit.register(PLAIN.close)


def rows_of(rng, count, seconds=60):
    """Rows of the three sources whose times come in order but for less than the delay. Sums of x are exact."""
    time = np.sort(rng.integers(0, seconds * SECOND, count)) + rng.integers(0, DELAY, count) // 2
    x = rng.integers(-40, 40, count) / 4
    return pa.table(
        {
            "source": pa.array(rng.integers(0, len(NAMES), count), pa.int32()),
            "time": pa.array(time, pa.timestamp("us")),
            "d0": pa.array(x, mask=rng.random(count) < 0.1),
            "v0": pa.array(rng.choice(["ash", "birch", "cedar", "ärger"], count)),
            "l0": pa.array(rng.integers(0, 5, count), pa.int64()),
        }
    )


def named(rows, source):
    """The rows of one source under the names that its users know."""
    mine = rows.filter(pa.array(rows.column("source").to_numpy() == source)).drop_columns(["source"])
    return mine.rename_columns(["time", "x", "city", "n"])


@dataclass
class Server:
    """Templates, constants and state of one server, in memory."""

    constants: dict = field(default_factory=dict)
    states: dict = field(default_factory=dict)
    templates: dict = field(default_factory=dict)
    results: list = field(default_factory=list)
    rows: list = field(default_factory=list)
    """What joins keep."""

    def __post_init__(self):
        self.latest = np.full(len(NAMES), NEVER)
        self.delay = np.full(len(NAMES), DELAY)
        self.batch = 0

    def add(self, number, text):
        """Register a computation from the next batch on."""
        prepared = PREPARER.prepare(text, KINDS)
        template = prepared.template
        line = {"id": number, "born": self.batch}
        line |= {f"s{i}": NAMES.index(name) for i, name in enumerate(prepared.sources)}
        line |= {f"p{i}": value for i, value in enumerate(prepared.constants)}
        self.templates[template.key] = template
        self.constants.setdefault(template.key, []).append(line)
        return template

    def table(self, key):
        """The constants of a template."""
        schema = self.templates[key].constants_schema
        kept = pa.schema([f for f in schema if f.name not in ("old", "new")])
        return pa.Table.from_pylist(self.constants[key], schema=kept)

    def feed(self, rows) -> None:
        """One batch."""
        clock = Clock.over(self.latest, self.delay, rows)
        ENGINE.give(rows=rows)
        joins = [(t, self.table(key)) for key, t in self.templates.items() if t.joins > 1]
        kept = keep(joins, rows, self.rows, clock, self.batch)
        self.rows = [*([] if kept.rewritten else self.rows), kept.written]
        kept.give(ENGINE)
        leads = 3 if kept.before.num_rows else 1
        for key, template in self.templates.items():
            state = self.states.setdefault(key, {})
            work = Work(template, self.table(key), rows, clock, self.batch, state, leads=leads)
            done = self.carried_out(work)
            for label in done.gone:
                state.pop(label, None)
            for label, table in done.written.items():
                state.setdefault(label, []).append(Piece(self.batch, table))
            if done.results is not None:
                self.results.append(done.results)
        self.latest = after(self.latest, rows)
        self.batch += 1

    def carried_out(self, work):
        """What a batch makes of a template."""
        return step(work, ENGINE)

    def answers(self):
        """Results by computation, as a multiset of tuples without the window."""
        found: dict[Any, Any] = {}
        for table in self.results:
            outputs = [c for c in table.column_names if c.startswith("o")]
            for row in table.to_pylist():
                found.setdefault(row["id"], Counter())[tuple(plain(row[o]) for o in outputs)] += 1
        return found

    def mark(self, source):
        """A source's watermark."""
        return int(self.latest[source] - self.delay[source])


def plain(value):
    """A value in the form in which both ways write it."""
    return round(float(value), 9) if hasattr(value, "is_integer") or hasattr(value, "as_tuple") else value


def asked(sql, **tables):
    """What plain DuckDB answers, as a multiset of tuples."""
    for name, table in tables.items():
        PLAIN.register(name, table)
    return Counter(tuple(plain(v) for v in row) for row in PLAIN.execute(sql).fetchall())


def oracle(text, window, rows, source, mark):
    table = named(rows, source)
    if window is None:
        return asked(text, **{NAMES[source]: table})
    written, size, slide = window
    start = f"time_bucket(INTERVAL '{slide} seconds', time, TIMESTAMP '1970-01-01') - off * INTERVAL '{slide} seconds'"
    inner = f"(SELECT *, {start} AS window_start, {start} + INTERVAL '{size} seconds' AS window_end FROM {NAMES[source]}, range({size // slide}) t(off)) s"
    done = f"window_end <= make_timestamp({mark})"
    plain = text.replace(written, "window_start, window_end").replace(
        f"FROM {NAMES[source]}", f"FROM {inner}"
    )
    plain = (
        plain.replace(" WHERE ", f" WHERE {done} AND ", 1)
        if " WHERE " in plain
        else plain.replace(" GROUP BY", f" WHERE {done} GROUP BY")
    )
    return asked(plain, **{NAMES[source]: table})


def batches_of(rows, cuts):
    edges = [0, *sorted(c % (rows.num_rows + 1) for c in cuts), rows.num_rows]
    return [rows.slice(a, b - a) for a, b in pairwise(edges)]


def at_seconds(*pairs):
    """Rows of (source, second) pairs."""
    sources, seconds = zip(*pairs, strict=True)
    count = len(pairs)
    return pa.table({"source": pa.array(sources, pa.int32()), "time": pa.array([t * SECOND for t in seconds], pa.timestamp("us")),
                     "d0": pa.array([1.0] * count), "v0": ["a"] * count, "l0": pa.array([1] * count, pa.int64())})  # fmt: skip
