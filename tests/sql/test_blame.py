# ruff: noqa: E501 (queries)
"""What fails is found and left out; parts that are computed apart give what the whole gives; whoever is slow pays."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from tests.sql.world import ENGINE, Server, batches_of, rows_of

from headgate.sql.blame import Tried, guarded, owners_of
from headgate.sql.purses import SHARED, Purses
from headgate.sql.shared import TemplateResult, Work, step

TEXTS = [
    "SELECT x, city FROM alpha WHERE n > {}",
    "SELECT city, count(*), sum(x), window_end FROM alpha WHERE n > {} GROUP BY city, HOP(time, INTERVAL '2 seconds', INTERVAL '6 seconds')",
    "SELECT median(x) FROM alpha WHERE n > {} GROUP BY TUMBLE(time, INTERVAL '5 seconds')",
    "SELECT city, sum(n) FROM alpha WHERE n > {} GROUP BY city, LAST 4 ROWS",
    "SELECT a.x, b.x FROM alpha a JOIN beta b ON a.n = b.n AND b.time BETWEEN a.time - INTERVAL '2 seconds' AND a.time WHERE a.n > {}",
    "SELECT count(*) FROM alpha a JOIN beta b ON a.n = b.n AND b.time BETWEEN a.time - INTERVAL '2 seconds' AND a.time WHERE a.n > {} "
    "GROUP BY TUMBLE(time, INTERVAL '5 seconds')".replace("TUMBLE(time", "TUMBLE(a.time"),
]  # fmt: skip


class Crowded(Server):
    """A server on which in some batches only few computations of a template succeed together."""

    most, bad = 2, frozenset[int]()

    def carried_out(self, work):
        def attempt(part, seconds):
            ids = part.touched.column("id").to_pylist()
            crowded = len(ids) > self.most and self.batch % 3 > 0
            if crowded or self.bad & set(ids):
                return Tried(0.01, why="too much")
            return Tried(0.01, step(part, ENGINE))

        done = guarded(work, attempt, Purses(20, 60))
        self.faults = done.faults
        return done.result


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[7:30])
def test_parts_give_what_the_whole_gives(text) -> None:
    rows = rows_of(np.random.default_rng(2), 400)
    whole, apart = Server(), Crowded()
    for server in (whole, apart):
        for number in range(7):
            server.add(number, text.format(number % 5))
        server.add(7, text.format(1).replace("alpha", "gamma"))
    quiet = rows.filter(pa.array(rows.column("source").to_numpy() != 2))
    batches = batches_of(rows, range(0, 400, 23))
    batches[5:9] = [batch.filter(pa.array(batch.column("source").to_numpy() != 2)) for batch in batches[5:9]]
    for batch in (*batches, quiet.slice(0, 0)):
        whole.feed(batch)
        apart.feed(batch)
        assert apart.faults == {}
    assert apart.answers() == whole.answers()
    assert apart.answers()


def test_those_that_fail_are_left_out_and_the_others_are_answered() -> None:
    rows = rows_of(np.random.default_rng(2), 200)
    whole, some = Server(), Crowded()
    some.most, some.bad = 99, frozenset({3, 6})
    for server in (whole, some):
        for number in range(9):
            server.add(number, TEXTS[0].format(number))
        server.feed(rows)
    assert some.faults == {3: "too much", 6: "too much"}
    assert some.answers() == {key: found for key, found in whole.answers().items() if key not in (3, 6)}


def work_of(owners):
    """A work with a computation for each number of an owner."""
    count = len(owners)
    constants = {"id": range(count), "s0": [0] * count, "born": [0] * count, "owner": owners}
    server = Server()
    template = server.add(0, "SELECT x FROM alpha")
    types = {"id": pa.int64(), "s0": pa.int32(), "born": pa.int64(), "owner": pa.int64()}
    table = pa.table({name: pa.array(list(values), types[name]) for name, values in constants.items()})
    return Work(template, table, rows_of(np.random.default_rng(2), 20), clock=None, batch=0)  # type: ignore[arg-type]


class Slow:
    """Computations that take some seconds each, of which the engine takes no notice when it is interrupted late."""

    def __init__(self, seconds) -> None:
        self.seconds, self.clock = seconds, 0.0
        self.tried: Counter[int] = Counter()

    def __call__(self, work, limit):
        ids = work.constants.column("id").to_pylist()
        self.tried.update(ids)
        needed = sum(self.seconds[number] for number in ids)
        self.clock += min(needed, limit)
        if needed > limit:
            return Tried(limit, why="too long", too_long=True)
        return Tried(needed, TemplateResult(pa.table({"id": pa.array(ids, pa.int64())})))


def test_a_slow_query_is_found_and_takes_its_own_tenants_time_only() -> None:
    owners = [number % 50 for number in range(1_000)]
    slow = Slow({number: 1e9 if number == 77 else 0.001 for number in range(1_000)})
    purses = Purses(20, 60)
    done = guarded(work_of(owners), slow, purses)
    result, faults = done.result, done.faults
    assert faults == {77: "too long"}
    assert result.results is not None
    assert sorted(result.results.column("id").to_pylist()) == [n for n in range(1_000) if n != 77]
    assert all(purses.left(owner) > 59 for owner in range(50) if owner != 77 % 50)
    assert slow.clock < 20 + 60 + 60
    assert purses.slow == {77 % 50}


def test_however_many_queries_are_slow_their_tenant_has_one_purse_for_a_batch() -> None:
    count = 1_000
    slow = Slow({number: 1e9 if number < 400 else 0.001 for number in range(count)})
    owners = [0 if number < 500 else number % 5 + 1 for number in range(count)]
    purses = Purses(20, 60)
    for _ in range(30):  # templates
        done = guarded(work_of(owners), slow, purses)
        result, faults = done.result, done.faults
        assert result.results is not None
        assert {*range(500, count)} <= {*result.results.column("id").to_pylist()}
        assert {*range(400)} <= faults.keys() <= {*range(500)}
    assert slow.clock < 20 + 60 + 60 + 30
    assert all(purses.left(owner) > 50 for owner in range(1, 6))


def test_what_is_too_much_only_together_is_computed_apart_and_nobody_is_stopped() -> None:
    slow = Slow(dict.fromkeys(range(64), 1.0))
    done = guarded(work_of([number % 8 for number in range(64)]), slow, Purses(20, 60))
    result, faults = done.result, done.faults
    assert faults == {}
    assert result.results is not None
    assert sorted(result.results.column("id").to_pylist()) == list(range(64))


def test_a_tenant_that_is_never_too_slow_at_once_pays_too() -> None:
    slow, purses = Slow({0: 15.0, 1: 0.1}), Purses(20, 60)
    faults = [guarded(work_of([0, 1]), slow, purses).faults for _ in range(9)]
    assert [sorted(fault) for fault in faults[:3]] == [[], [], []]
    assert sorted(faults[-1]) == [0]
    assert all(1 not in fault for fault in faults)


def test_a_tenant_without_time_left_is_told_so() -> None:
    slow, purses = Slow({0: 0.1, 1: 0.1}), Purses(20, 60, spent={0: 60.0}, slow={0})
    assert "used up its 60 s" in guarded(work_of([0, 1]), slow, purses).faults[0]
    assert owners_of(work_of([4, 4, 2]).constants).tolist() == [4, 4, 2]
    assert Purses(1, 2).left(SHARED) == 2
