"""The service on real Spark, over real HTTP: what is answered equals a recomputation of everything at once."""

import time
from collections import Counter
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from tests.sql.test_shared import JOIN
from tests.sql.world import KIND, NAMES, asked, batches_of, named, oracle, plain, rows_of

import headgate as hg
from headgate.service.batch.connector_stream import open_streams
from headgate.service.batch.runner import Runner
from headgate.service.http.background import listening
from headgate.service.service import Service
from headgate.service.settings import Settings


class Served:
    """A service with Spark and HTTP, in this process; `stop` and `start` are a restart."""

    def __init__(self, spark, folder, sections=None) -> None:
        self.spark, self.folder, self.sections = spark, folder, sections or {}
        self.start()
        self.token = self.service.add_tenant("root", admin=True)
        self.client = hg.service.Client(self.url, self.token)

    def start(self) -> None:
        self.service = Service(Settings(self.folder, servers=3))
        streams = open_streams(self.spark, self.service, self.sections, {})
        self.runner = Runner(self.service, self.spark, streams)
        self.runner.start()
        self.http = ExitStack()
        self.url = self.http.enter_context(listening(self.service))

    def stop(self) -> None:
        self.client.close()
        self.http.close()
        self.runner.stop()
        self.service.close()

    def restart(self) -> None:
        self.stop()
        self.start()
        self.client = hg.service.Client(self.url, self.token)

    def push(self, rows) -> None:
        """Push rows in slots by their public names, and wait until a batch has taken all of them."""
        before = self.taken()
        for source, name in enumerate(NAMES):
            events = named(rows, source).to_pylist()
            self.client.push(name, [{**e, "time": e["time"].isoformat()} for e in events])
        deadline = time.monotonic() + 120
        while self.taken() < before + rows.num_rows:
            assert time.monotonic() < deadline, (self.service.failure, self.client.traffic())
            assert self.service.failure is None, self.service.failure
            time.sleep(0.05)

    def taken(self):
        return sum(manifest.facts["rows"] for manifest in self.service.batch_log.history)

    def answers(self, number):
        found: Counter[tuple[Any, ...]] = Counter()
        cursor = None
        while True:
            rows, cursor = self.client.results(number, cursor)
            found.update(tuple(plain(v) for v in row["values"].values()) for row in rows)
            if not rows:
                return found


@pytest.fixture
def served(spark, tmp_path):
    made = Served(spark, tmp_path)
    made.client.add_sources([{"name": n, "columns": dict(KIND.columns), "delay_s": 5} for n in NAMES])
    yield made
    made.stop()


def test_every_answer_equals_a_recomputation(served) -> None:
    windowed = ("TUMBLE(time, INTERVAL '10 seconds')", 10, 10)
    tumble = "SELECT city, count(*), sum(x) FROM {} WHERE n > {} GROUP BY city, TUMBLE(time, INTERVAL '10 seconds')"
    queries: list[tuple[str, tuple[str, int, int] | None, int]] = [
        (f"SELECT x, city FROM {name} WHERE x > {i % 20}", None, s)
        for i in range(60)
        for s, name in enumerate(NAMES)
    ]
    queries += [(tumble.format(name, i % 4), windowed, s) for i in range(60) for s, name in enumerate(NAMES)]
    numbers = served.client.register_many([text for text, _, _ in queries])
    joined = f"SELECT a.x, b.x {JOIN} WHERE a.x > 1"
    join = served.client.register(joined)
    rows = rows_of(np.random.default_rng(1), 600)
    first, second, third = batches_of(rows, [200, 400])
    served.push(first)
    moved = served.client.lose_server(0)
    assert moved > 0
    served.push(second)
    served.restart()
    served.client.add_server()
    served.push(third)
    latest = served.service.batch_log.last.latest
    for number, (text, window, source) in list(zip(numbers, queries, strict=True))[::7]:
        assert served.answers(number) == oracle(text, window, rows, source, latest[source] - 5_000_000), text
    assert served.answers(join) == asked(joined, alpha=named(rows, 0), beta=named(rows, 1))
    facts = served.client.traffic()[-1]
    assert facts["sent_rows"] == facts["predicted_rows"] > 0
    assert facts["sent_bytes"] > 0


def test_files_are_a_source_and_a_stream_that_is_taken_out_comes_back(spark, tmp_path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    section = {  # as earlier versions had it, when Spark read the files
        "format": "json",
        "schema": "time timestamp, level double, gate string",
        "options": {"path": str(folder), "maxFilesPerTrigger": 5},
        "select": ["time", "gate", "level * 2 AS twice"],
    }
    served = Served(spark, tmp_path / "service", {"water": section})

    def write(name, numbers) -> None:
        lines = [
            f'{{"time": "2026-01-01T00:00:{i:02d}Z", "level": {i}, "gate": "g{i % 2}"}}' for i in numbers
        ]
        (folder / f".{name}").write_text("\n".join(lines))
        (folder / f".{name}").rename(folder / name)

    def wait_for(count) -> None:
        deadline = time.monotonic() + 60
        while sum(served.answers(number).values()) < count:
            assert time.monotonic() < deadline, served.service.failure
            time.sleep(0.1)

    try:
        number = served.client.register("SELECT gate, twice FROM water WHERE twice > 2")
        write("one.json", range(10))
        wait_for(8)
        served.sections = {}
        served.restart()
        write("two.json", range(10, 20))
        served.sections = {"water": section}
        served.restart()
        wait_for(18)
        assert served.answers(number) == Counter({(f"g{i % 2}", 2.0 * i): 1 for i in range(2, 20)})
    finally:
        served.stop()
