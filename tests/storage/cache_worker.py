"""A Python worker with a cache of bins, for the tests of it: in this process, or as a program that takes a line a call."""

import json
import sys
from dataclasses import dataclass

import numpy as np

from headgate.state.keys import KeyColumn
from headgate.state.layout import Kind, StateColumn, StateLayout
from headgate.state.table import BinTable
from headgate.storage import bin_cache
from headgate.storage.bin_cache import BinCache

LAYOUT = StateLayout(False, (StateColumn("n", Kind.I64),))


def keys_of(names):
    offsets = np.cumsum([0, *map(len, names)]).astype(np.int64)
    data = np.frombuffer(bytearray("".join(names).encode()), np.uint8)
    return KeyColumn(np.array([hash_of(n) for n in names], np.int64), data, np.zeros(0, np.uint8), offsets)


def hash_of(name):
    return sum(name.encode())


def add(table, names) -> None:
    slots = table.probe(keys_of(names), np.arange(len(names)))
    np.add.at(table.arrays["n"], slots, 1)


def content(table):
    """{key: count} of a table."""
    off, size = table.arrays["key.off"], table.arrays["key.len"]
    names = [table.heap[off[i] : off[i] + size[i]].tobytes().decode() for i in range(table.rows)]
    return dict(zip(names, table.arrays["n"][: table.rows].tolist(), strict=True))


@dataclass
class Names:
    """A bin whose chain has these files, and whose last one adds names."""

    files: list[str]
    committed: list[str]
    rows = heap = 0

    def chain(self):
        return self.files

    def steps(self, table, since):
        if since != self.files[-1]:
            add(table, self.committed)
        yield self.files[-1]


class Worker:
    """The calls of a task, with values that can be written as JSON."""

    def __init__(self, root, owner) -> None:
        bin_cache.cache_root = lambda need=0: root
        bin_cache.executor_identity = lambda: ("host", owner)
        self.cache = BinCache("stage", LAYOUT)
        self.tables: dict[int, BinTable] = {}

    def open(self, b, expected, committed):
        """Open a bin, rebuilt if need be from the names in `committed`; how, where and what."""
        table, found = self.cache.open(b, expected, Names([expected], committed))
        rebuilt = found is bin_cache.Found.nowhere
        table.begin()
        self.tables[b] = table
        return {"rebuilt": rebuilt, "shared": self.cache._tables.get(b) is table, "content": content(table)}

    def add(self, b, names):
        add(self.tables[b], names)
        return content(self.tables[b])

    def settle(self, name) -> None:
        self.cache.settle(self.tables, name)
        self.release()

    def release(self) -> None:
        self.cache.release()
        self.tables = {}


if __name__ == "__main__":
    worker = Worker(sys.argv[1], int(sys.argv[2]))
    print("ready", flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(worker, name)(*arguments)), flush=True)
