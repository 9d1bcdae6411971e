"""Folders of input, and a driver that plans, reads and commits."""

import json
import os
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headgate.sources import Demand
from headgate.storage.store import Store

SCHEMA = pa.schema([("n", pa.int64()), ("word", pa.string())])


def table(first, rows):
    """Rows with numbers from `first` on."""
    numbers = list(range(first, first + rows))
    return pa.table({"n": numbers, "word": [f"w{n}" for n in numbers]}, schema=SCHEMA)


class Inbox:
    """A folder into which files are put whole."""

    def __init__(self, path):
        self.path = path
        os.makedirs(path, exist_ok=True)

    def put(self, name, content, mtime=None):
        """Write a table as Parquet (or JSON lines, by the name), or bytes, and rename it into the folder."""
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        draft = os.path.join(self.path, "_draft")
        if isinstance(content, pa.Table) and name.endswith((".json", ".jsonl")):
            content = "".join(json.dumps(row) + "\n" for row in content.to_pylist()).encode()
        if isinstance(content, pa.Table):
            pq.write_table(content, draft, row_group_size=3)
        else:
            with open(draft, "wb") as file:
                file.write(content)
        if mtime is not None:
            os.utime(draft, ns=(mtime, mtime))
        os.replace(draft, path)
        return path


class Driver:
    """What a direct stream does with a source; its offset is all that survives `restart`."""

    def __init__(self, make, store, offset=None):
        self.make, self.store, self.offset = make, store, offset
        self.restart()

    def restart(self):
        self.source = self.make()
        self.source.open(self.store)
        self.source.schema()

    def plan(self, rows=1 << 40, tasks=1, now=0.0):
        return self.source.plan(json.loads(json.dumps(self.offset)), Demand(rows, tasks, now))

    def batch(self, rows=1 << 40, tasks=1, now=0.0):
        """Plan, read each range in order in a "task", twice, and commit."""
        planned = self.plan(rows, tasks, now)
        task = pickle.loads(pickle.dumps(self.source))
        read = []
        for part in planned.ranges:
            what = pickle.loads(pickle.dumps(part.what))
            once, again = (pa.Table.from_batches(task.read(what), self.source.schema()) for _ in range(2))
            assert once.equals(again)
            read.append(once)
        self.offset = planned.offset
        return pa.concat_tables(read) if read else self.source.schema().empty_table()

    def drain(self, rows=1 << 40, tasks=1):
        """Batches until nothing is left."""
        parts = [self.batch(rows, tasks)]
        while parts[-1].num_rows or self.plan().ranges:
            parts.append(self.batch(rows, tasks))
        return pa.concat_tables(parts)


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "checkpoint"), durable=False)


@pytest.fixture
def inbox(tmp_path):
    return Inbox(str(tmp_path / "in"))
