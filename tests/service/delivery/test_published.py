"""A query over another query's results: its rows come once, and the answers do not depend on how rows were batched."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.service.delivery.receiver import rows
from tests.service.local import Local
from tests.sql.world import rows_of

from headgate.errors import AccessDenied, ConfigError, NotFound
from headgate.service import Client
from headgate.service.batch.loop import Loop
from headgate.service.delivery.published import PUBLISHED, PublishedSource, publish
from headgate.service.http.background import listening
from headgate.service.queries import Query

ROWS = "SELECT city, n FROM alpha WHERE n > 1"
TENS = "SELECT city, count(*) AS c, sum(n) AS s FROM {} GROUP BY city, TUMBLE(time, INTERVAL '10 seconds')"


class Fed:
    """The stream of published results, without Spark."""

    name, max_rows = PUBLISHED, 1000

    def __init__(self, service) -> None:
        self.source = PublishedSource(service)

    def rows(self, ranges):
        batches = [batch for part in ranges for batch in self.source.read(part.what)]
        return pa.Table.from_batches(batches)


class Chain(Local):
    """A service whose published results are fed after every batch."""

    def start(self) -> None:
        super().start()
        self.stream = Fed(self.service)
        self.loop = Loop(self.service, self.processor, [self.stream], pa.concat_tables)

    def drain(self) -> None:
        """Feed results until there are no more."""
        for _ in range(20):
            before = self.service.last_batch
            self.loop.step()
            if self.service.last_batch == before:
                return
        raise AssertionError("results feed results without end")

    def feed(self, rows) -> None:
        super().feed(rows)
        self.drain()

    def windows(self, number, before_s=60):
        """The results of a query over windows, by window, of those that end early enough."""
        found: Counter[tuple[object, ...]] = Counter()
        cursor = None
        while True:
            page, cursor = self.service.read(self.ann, number, cursor, 100)
            if not page:
                return found
            for row in page:
                if row["window"]["end"] <= f"1970-01-01T00:{before_s // 60:02d}:{before_s % 60:02d}Z":
                    found[row["window"]["start"], *row["values"].values()] += 1


@pytest.fixture
def chain(tmp_path):
    chain = Chain(tmp_path / "service", servers=2)
    yield chain
    chain.service.close()


def ends(at=200):
    """Rows that close all windows before."""
    return pa.concat_tables([rows(9, 9, at=at, source=s) for s in (0, 1, 2)])


def cut(table, places):
    places = sorted({0, table.num_rows, *(int(place * table.num_rows) for place in places)})
    return [table.slice(a, b - a) for a, b in pairwise(places)]


def check_chain(folder, seed, places, restarts) -> None:
    """Rows, published, then windows; and windows, published, then longer windows: each equals one query over all."""
    chain = Chain(folder, servers=1)
    (upper,) = chain.add(ROWS)
    publish(chain.service, chain.ann, upper, "many")
    (tens,) = chain.add(TENS.format("alpha"))
    publish(chain.service, chain.ann, tens, "tens")
    direct, over_rows, over_tens, minute = chain.add(
        TENS.format("alpha WHERE n > 1"),
        TENS.format("many"),
        "SELECT city, sum(c) AS c, sum(s) AS s FROM tens GROUP BY city, TUMBLE(time, INTERVAL '10 seconds')",
        "SELECT city, sum(c) AS c, sum(s) AS s FROM tens GROUP BY city, TUMBLE(time, INTERVAL '30 seconds')",
    )
    (half,) = chain.add(TENS.format("alpha").replace("10", "30"))
    parts = cut(rows_of(np.random.default_rng(seed), 300), places)
    for number, part in enumerate(parts):
        chain.feed(part)
        if number in restarts:
            chain.restart()
    for at in (200, 300, 400):
        chain.feed(ends(at))
    assert chain.windows(direct), "there is something to compare"
    assert chain.windows(over_rows) == chain.windows(direct)
    assert chain.windows(over_tens) == chain.windows(tens)
    assert chain.windows(minute) == chain.windows(half)
    chain.service.close()


def test_answers_over_results_are_those_of_one_query(tmp_path) -> None:
    check_chain(tmp_path, 3, [0.35, 0.8], {1})


@pytest.mark.full
def test_the_same_however_rows_are_batched(tmp_path_factory) -> None:
    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.integers(0, 1000), st.lists(st.floats(0, 1), max_size=8), st.sets(st.integers(0, 8), max_size=2)
    )
    def check(seed, places, restarts) -> None:
        check_chain(tmp_path_factory.mktemp("chain"), seed, places, restarts)

    check()


def test_each_result_is_fed_once_though_batches_fail_and_processes_end(chain, monkeypatch) -> None:
    (upper,) = chain.add(ROWS)
    publish(chain.service, chain.ann, upper, "many")
    (lower,) = chain.add("SELECT n FROM many")
    Local.feed(chain, rows(2, 3))
    real, failing = chain.processor._job, [True]

    def job(*arguments):
        if failing:
            raise RuntimeError("the job failed")
        return real(*arguments)

    monkeypatch.setattr(chain.processor, "_job", job)
    chain.loop.step()  # fails
    assert PUBLISHED in chain.service.failures
    monkeypatch.undo()
    chain.restart()  # before anything of it was committed
    chain.drain()
    chain.restart()  # after
    chain.drain()
    chain.feed(rows(4))
    assert chain.answers(lower) == Counter({(2,): 1, (3,): 1, (4,): 1})


def test_a_source_begins_when_it_is_published(chain) -> None:
    (upper,) = chain.add(ROWS)
    publish(chain.service, chain.ann, upper, "many")
    Local.feed(chain, rows(2))  # not fed yet, when the other source is published
    publish(chain.service, chain.ann, upper, "later")
    (lower,) = chain.add("SELECT n FROM later")
    chain.feed(rows(3))
    assert chain.answers(lower) == Counter({(3,): 1})


def test_results_stay_until_they_are_fed(tmp_path) -> None:
    chain = Chain(tmp_path, servers=1, kept_batches=2)
    (upper,) = chain.add(ROWS)
    publish(chain.service, chain.ann, upper, "many")
    (lower,) = chain.add("SELECT n FROM many")
    for number in range(6):
        Local.feed(chain, rows(2 + number))
    chain.restart()
    assert len(chain.service.batch_log.history) == 6
    Local.feed(chain, rows(8))
    chain.loop.step()
    assert len(chain.service.batch_log.history) == 2
    shown, _ = chain.service.read(chain.ann, lower)
    assert [row["values"]["n"] for row in shown] == [2, 3, 4, 5, 6, 7, 8]
    for _ in range(5):  # what is silent holds nothing back
        chain.feed(rows(0))
    assert len(chain.service.batch_log.history) == 2
    chain.service.close()


def test_a_paused_or_removed_query_leaves_its_source_silent(chain) -> None:
    (upper,) = chain.add(ROWS)
    publish(chain.service, chain.ann, upper, "many")
    (lower,) = chain.add("SELECT n FROM many")
    chain.feed(rows(2))
    chain.service.pause(chain.ann, upper)
    chain.feed(rows(3))
    chain.service.resume(chain.ann, upper)
    chain.feed(rows(4))
    chain.service.remove(chain.ann, upper)
    chain.feed(rows(5))
    assert chain.answers(lower) == Counter({(2,): 1, (4,): 1})
    assert "many" in chain.service.sources.by_name


def test_a_published_source_is_private_until_it_is_granted(chain) -> None:
    bob = chain.service.authenticate(chain.service.add_tenant("bob"))
    (upper,) = chain.add(ROWS)
    with pytest.raises(NotFound, match="no query"):
        publish(chain.service, bob, upper, "stolen")
    publish(chain.service, chain.ann, upper, "many")
    (refused,) = chain.service.register(bob, [("SELECT n FROM many", "")])
    assert not isinstance(refused, Query)
    chain.service.grant(chain.ann, "many", "bob")
    (lower,) = chain.service.register(bob, [("SELECT n FROM many", "")])
    assert isinstance(lower, Query)
    chain.feed(rows(2))
    assert [row["values"]["n"] for row in chain.service.read(bob, lower.id)[0]] == [2]
    with pytest.raises(AccessDenied):
        chain.service.push_events(bob, "many", [])


def test_nobody_pushes_to_results(chain) -> None:
    (upper,) = chain.add(ROWS)
    publish(chain.service, chain.ann, upper, "many")
    with pytest.raises(ConfigError, match="nobody can push"):
        chain.service.push_events(chain.ann, "many", [{"time": 1, "city": "a", "n": 1}])


def test_no_circle_can_arise(chain) -> None:
    """A query reads sources that were there before it, so the sources behind a published one are all older than it."""
    (refused,) = chain.service.register(chain.ann, [("SELECT n FROM later", "")])
    assert not isinstance(refused, Query)
    (first,) = chain.add(ROWS)
    publish(chain.service, chain.ann, first, "later")
    (second,) = chain.add("SELECT n FROM later")
    publish(chain.service, chain.ann, second, "latest")
    with pytest.raises(ConfigError, match="already exists"):
        publish(chain.service, chain.ann, second, "later")
    for name, one in chain.service.published.by_source.items():
        query = chain.service.queries.get("ann", one.query)
        read = chain.service.computations.by_id[query.computation].sources
        assert max(read) < chain.service.sources.by_name[name].id
    chain.feed(rows(2, 3))  # it ends


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT time, n FROM alpha", "'time'"),
        ('SELECT n AS "größe" FROM alpha', "another name with AS"),
    ],
)
def test_columns_that_a_source_cannot_have_are_refused(chain, sql, why) -> None:
    (number,) = chain.add(sql)
    with pytest.raises(ConfigError, match=why):
        publish(chain.service, chain.ann, number, "many")
    assert "many" not in chain.service.sources.by_name


def test_types_times_and_delays_follow_the_query(chain) -> None:
    plain, windows = chain.add(
        "SELECT n, x, city, n > 1 AS big FROM alpha",
        "SELECT city, sum(n) AS s, avg(x) AS m, max(time) AS latest FROM alpha GROUP BY city, TUMBLE(time, INTERVAL '10 seconds')",
    )
    one = publish(chain.service, chain.ann, plain, "plain")
    two = publish(chain.service, chain.ann, windows, "windows")
    three = publish(chain.service, chain.ann, windows, "slow", delay_s=3)
    assert dict(one.kind.columns) == {"n": "bigint", "x": "double", "city": "varchar", "big": "boolean"}
    assert dict(two.kind.columns) == {"city": "varchar", "s": "bigint", "m": "double", "latest": "timestamp"}
    assert [source.delay_us for source in (one, two, three)] == [5_000_000, 0, 3_000_000]
    (lower,) = chain.add("SELECT s, latest FROM windows")
    chain.feed(rows(1, at=3))
    chain.feed(rows(1, at=40))
    ((shown,), _) = chain.service.read(chain.ann, lower)
    assert shown["time"] == "1970-01-01T00:00:09.999999Z"
    assert shown["values"] == {"s": 1, "latest": "1970-01-01T00:00:03Z"}


def test_a_client_publishes(chain) -> None:
    (upper,) = chain.add(ROWS)
    with listening(chain.service) as url, Client(url, chain.token) as client:
        assert client.publish(upper, "many", delay_s=1)["columns"] == {"city": "varchar", "n": "bigint"}
        with pytest.raises(ConfigError, match="already exists"):
            client.publish(upper, "many")
        with pytest.raises(NotFound):
            client.publish(upper + 1, "other")
