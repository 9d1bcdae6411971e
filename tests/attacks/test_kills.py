"""The leader is killed again and again; a standby takes over. Whatever was acknowledged is there, once."""

import os
import random
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from tests.service.pair import Pair

from headgate import errors

ALL = "SELECT x FROM alpha WHERE x >= 0"


class Traffic:
    """Tenants at work while leaders die: two push, one registers, one reads. Each keeps count of what it was told."""

    def __init__(self, pair) -> None:
        self.pair, self.done = pair, threading.Event()
        self.pushed: set[int] = set()
        self.registered: dict[int, str] = {}
        self.unsure: set[int] = set()
        """Values whose push got no answer: they may be there or not."""
        self.seen: Counter[int] = Counter()
        self.failed: list[BaseException] = []
        with pair.client() as client:
            client.add_source("alpha", {"x": "bigint"})
            self.all = client.register(ALL)
        work = [lambda: self._push(0), lambda: self._push(1), self._register, self._read]
        self.threads = [threading.Thread(target=self._guarded, args=(one,), daemon=True) for one in work]
        for thread in self.threads:
            thread.start()

    def _guarded(self, work) -> None:
        try:
            work()
        except BaseException as error:
            self.failed.append(error)
            self.done.set()

    def _push(self, parity) -> None:
        value = parity
        with self.pair.client() as client:
            while not self.done.is_set():
                values = range(value, value + 2 * random.randrange(1, 5), 2)
                value = values[-1] + 2
                try:
                    client.push("alpha", [{"time": 1000 + v, "x": v} for v in values])
                    self.pushed.update(values)
                except errors.HeadgateError:
                    self.unsure.update(values)
                time.sleep(0.005)

    def _register(self) -> None:
        number = 0
        with self.pair.client() as client:
            while not self.done.is_set():
                number += 1
                with suppress(errors.HeadgateError):  # perhaps it was registered all the same
                    text, name = f"SELECT x FROM alpha WHERE x = {-number}", f"q{number}"
                    self.registered[client.register(text, name)] = name
                time.sleep(0.02)

    def _read(self) -> None:
        cursor = None
        with self.pair.client() as client:
            while not self.done.is_set() or self.pushed - set(self.seen):
                try:
                    rows, cursor = client.results(self.all, cursor)
                except errors.CursorGone:
                    raise
                except errors.HeadgateError:
                    continue
                self.seen.update(row["values"]["x"] for row in rows)
                if not rows:
                    time.sleep(0.02)

    def finish(self) -> None:
        """Wait until the reader has seen what was acknowledged, and compare."""
        self.done.set()
        for thread in self.threads:
            thread.join(120)
        assert not self.failed, self.failed
        assert self.pushed - set(self.seen) == set(), "acknowledged, and lost"
        assert {x: n for x, n in self.seen.items() if n > 1} == {}, "doubled"
        assert set(self.seen) <= self.pushed | self.unsure, "never sent"
        with self.pair.client() as client:
            there = {query["id"]: query["name"] for query in client.queries()}
            assert len(set(there.values())) == len(there), "a query is there twice"
            assert self.registered.items() <= there.items(), "a query was acknowledged, and lost"
        assert self.pushed
        assert self.registered


def killed(pair, kills, rng) -> list[tuple[float, float]]:
    """Kill leaders under traffic; returns for each how long the first answer and the first batch took."""
    took = []
    pair.start().await_phase("serving")
    pair.start().await_phase("standby")
    traffic = Traffic(pair)
    for kill in range(kills):
        time.sleep(rng.uniform(0.1, 0.6))
        assert not traffic.failed, traffic.failed
        began = time.monotonic()
        leader = pair.kill_leader()
        leader.await_phase("serving")
        answered = time.monotonic() - began
        with pair.client() as client:
            before = client.status()["batch"]
            while client.status()["batch"] <= before:
                time.sleep(0.01)
        took.append((answered, time.monotonic() - began))
        if kill < kills - 1:
            pair.start().await_phase("standby")
    traffic.finish()
    return took


def say(took) -> None:
    answers, batches = (sorted(column) for column in zip(*took, strict=True))
    print(
        f"\n{len(took)} kills: the standby answers after {answers[len(took) // 2]:.2f} s ({answers[-1]:.2f} at most), "
        f"its first batch is committed after {batches[len(took) // 2]:.2f} s ({batches[-1]:.2f} at most)"
    )


@pytest.fixture
def pair():
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # processes die here, and no machine
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        pair = Pair(Path(folder))
        yield pair
        pair.end()


def test_a_standby_takes_over_and_nothing_is_lost_or_doubled(pair) -> None:
    say(killed(pair, 1, random.Random(1)))


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_fifty_kills_lose_and_double_nothing(pair) -> None:
    say(killed(pair, 50, random.Random(2)))
