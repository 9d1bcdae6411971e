"""A hostile tenant beside a hundred good ones: how long a good tenant waits from its push to its result, with and without.

One service with Spark and HTTP, on two cores, which it shares with the clients. Phases alternate: in every second one the
hostile tenant's queries run and it pushes as fast as it can. Good tenants push one event at a time, and read until its
result is there.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headgate.cli.console import Tick
from headgate.errors import HeadgateError
from headgate.service.http.background import listening
from headgate.service.http.client import Client
from headgate.service.service import Service
from headgate.service.settings import Settings
from headgate.spark.local import local_spark
from headgate.sql.limits import Limits
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.bench.tenants_clients import Good, clients, good, hostile

CONF = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
COLUMNS = {"x": "double", "n": "bigint", "text": "varchar"}
GOOD = (
    "SELECT x, n FROM {s} WHERE n >= 0",
    "SELECT count(*) AS c, avg(x) AS m FROM {s} GROUP BY TUMBLE(time, INTERVAL '10 seconds')",
    "SELECT n, max(x) AS m FROM {s} GROUP BY n, HOP(time, INTERVAL '5 seconds', INTERVAL '20 seconds')",
)
WARM_PHASES = 3
"""How many phases are not counted: what is measured first would be slower than what comes later, and hide it."""
SETTLE_S = 180.0
"""How long what was pushed in an attack may take to be read after it."""


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    tenants: int = 100
    readers: int = 4
    """Good tenants that push at the same time."""
    phase_s: float = 20.0
    phases: int = 6
    hostile_templates: int = 60
    flood_rows: int = 2_000
    """Rows of one hostile push."""


@dataclass
class Waits:
    """Seconds from push to result of good tenants, in both kinds of phases."""

    calm: list[float] = field(default_factory=list)
    hostile: list[float] = field(default_factory=list)

    def p95(self, of: Sequence[float]) -> float:
        """The 95th percentile."""
        return float(np.percentile(of, 95)) if of else float("nan")


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure in alternating phases; `repeat` makes more of them."""
    where = machine()
    size = Size(8, 2, 5.0, 2, 6, 200) if quick else Size(phases=6 * repeat)
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        with local_spark(2, folder / "spark.log", CONF) as spark:
            waits, seen = measure(spark, folder / "service", size, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report_of(waits, seen, where, quick=quick)


def measure(spark: Any, folder: Path, size: Size, progress: Tick) -> tuple[Waits, dict[str, float]]:
    """The waits of good tenants, and what the hostile one used."""
    waits = Waits()
    with World(spark, folder, size) as world:
        world.phase(WARM_PHASES * size.phase_s, [])  # a JVM gets faster for a minute
        for number in range(size.phases):
            progress("hostile" if number % 2 else "calm", number / size.phases)
            if number % 2:
                with world.attack():
                    world.phase(size.phase_s, waits.hostile)
            else:
                world.phase(size.phase_s, waits.calm)
        return waits, world.seen()


class World:
    """A service with its tenants."""

    def __init__(self, spark: Any, folder: Path, size: Size) -> None:
        self._spark, self._folder, self._size = spark, folder, size
        self._stack = ExitStack()

    def __enter__(self) -> World:
        from headgate.service.batch.runner import Runner

        stack, size = self._stack, self._size
        self.service = Service(Settings(self._folder, servers=2, limits=Limits()))
        stack.callback(self.service.close)
        runner = Runner(self.service, self._spark)
        stack.callback(runner.stop)
        runner.start()
        url = stack.enter_context(listening(self.service))
        self._good = stack.enter_context(clients(good, url, self._good_tenants(url), size.readers))
        token = self.service.add_tenant("mallory")
        self.hostile = stack.enter_context(Client(url, token, timeout=120))
        self.hostile.add_source("flood", COLUMNS, delay_s=0)
        self._queries = self.hostile.register_many(hostile_texts(size.hostile_templates))
        self._flood = stack.enter_context(clients(hostile, url, token, size.flood_rows))
        self.pushes = [0, 0]
        """How many pushes of the hostile tenant were accepted, and how many refused."""
        self._each("pause")
        return self

    def _good_tenants(self, url: str) -> list[Good]:
        found = list[Good]()
        for number in range(self._size.tenants):
            token, source = self.service.add_tenant(f"good{number}"), f"s{number}"
            with Client(url, token, timeout=120) as client:
                client.add_source(source, COLUMNS, delay_s=0)
                first, *_ = client.register_many([text.format(s=source) for text in GOOD])
            assert isinstance(first, int), first
            found.append((token, source, first))
        return found

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _each(self, act: str) -> None:
        for number in self._queries:
            with suppress(HeadgateError):
                getattr(self.hostile, act)(number)

    @contextmanager
    def attack(self) -> Iterator[None]:
        """In the block, the hostile tenant does what it can."""
        self._each("resume")
        self._flood.send("begin")
        try:
            yield
        finally:
            self._flood.send("end")
            accepted, refused = self._flood.recv()
            self.pushes = [self.pushes[0] + accepted, self.pushes[1] + refused]
            self._each("pause")
            self._settle()

    def _settle(self) -> None:
        """Wait until nothing of the attack is left, so that it does not count for what follows."""
        end = time.monotonic() + SETTLE_S
        while self.service.push_log.backlog()["rows"] and time.monotonic() < end:
            time.sleep(0.1)

    def phase(self, seconds: float, waits: list[float]) -> None:
        """Let good tenants push and read for a while."""
        self._good.send(seconds)
        found, failures = self._good.recv()
        if failures:
            raise HeadgateError(f"a good tenant could not go on: {failures[0]}")
        waits += found

    def seen(self) -> dict[str, float]:
        """What became of the hostile tenant, and of the queries of the good ones."""
        use = self.hostile.usage()
        stopped = sum(query.state == "failed" for query in self.service.queries.by_id.values())
        hurt = sum(
            query.state == "failed" and query.tenant.startswith("good")
            for query in self.service.queries.by_id.values()
        )
        return {
            "cpu_s": use["cpu_s"],
            "waiting_rows": use["waiting_rows"],
            "stopped": stopped - hurt,
            "hurt": hurt,
            "accepted": self.pushes[0],
            "refused": self.pushes[1],
        }


def hostile_texts(templates: int) -> list[str]:
    """Queries that cost much: patterns, texts that are built, many templates, wide windows with many groups."""
    texts = [f"SELECT x FROM flood WHERE text LIKE '{'%a' * k}%b'" for k in range(2, 12)]
    texts += [f"SELECT length({' || '.join(['text'] * k)}) AS l FROM flood" for k in (20, 30)]
    texts += [
        f"SELECT n, count(*) AS c FROM flood GROUP BY n, HOP(time, INTERVAL '{k} seconds', INTERVAL '1 hour')"
        for k in (60, 90)
    ]
    texts += [
        f"SELECT {' + '.join(['x'] * k)} AS y, upper(text) AS t FROM flood WHERE x * {k} > 0.5 AND text <> '{k}'"
        for k in range(1, templates + 1)
    ]
    return texts


def report_of(waits: Waits, seen: dict[str, float], where: dict[str, Any], *, quick: bool) -> Report:
    """The figures beside the goal."""
    calm, hostile = waits.p95(waits.calm), waits.p95(waits.hostile)
    results = (
        Result(
            "a good tenant's result after its push, 95th percentile, beside a hostile tenant", "s", hostile,
            "without it", calm, {"with, s": waits.hostile, "without, s": waits.calm},
        ),
        Result("the same, median", "s", float(np.median(waits.hostile)), "without it", float(np.median(waits.calm)), {}),
        Result("CPU of the hostile tenant in the last batches", "s", seen["cpu_s"], None, None, {}),
        Result("rows that wait for the hostile tenant", "rows", seen["waiting_rows"], None, None, {}),
        Result("pushes of the hostile tenant that were accepted", "", seen["accepted"], None, None, {}),
        Result("pushes of the hostile tenant that were refused", "", seen["refused"], None, None, {}),
        Result("queries of the hostile tenant that were stopped", "", seen["stopped"], None, None, {}),
        Result("queries of good tenants that were stopped", "", seen["hurt"], None, None, {}),
    )  # fmt: skip
    goals = (
        Goal("a hostile tenant moves the others' 95th percentile", 20, 100 * (hostile / calm - 1), at_most=True, unit="%"),
        Goal("queries of good tenants that were stopped", 0, seen["hurt"], at_most=True, unit=""),
    )  # fmt: skip
    return Report("tenants", results, goals, machine=where, quick=quick)
