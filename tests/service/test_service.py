"""The service as an object: what is registered is answered, whatever servers come and go and however often it restarts."""

import numpy as np
import pyarrow as pa
import pytest
from tests.service.local import Local
from tests.sql.test_shared import FAMILIES, JOIN
from tests.sql.world import NAMES, asked, batches_of, named, oracle, plain, rows_of

from headgate.errors import (
    AccessDenied,
    BatchOrder,
    ConfigError,
    CursorGone,
    NotFound,
    QueryRefused,
    Superseded,
)
from headgate.service.batch.manifest import Stored
from headgate.sql.engine import Function
from headgate.sql.limits import Limits


def random_queries(rng, count):
    found = []
    for _ in range(count):
        text, window = FAMILIES[rng.choice(sorted(FAMILIES))]
        source = int(rng.integers(3))
        filled = text.format(s=NAMES[source], a=rng.integers(4), b=rng.choice(["-5", "0.25", "4"]), c=rng.choice(["ash", "birch"]),
                             d=rng.integers(3), w=window[0] if window else "")  # fmt: skip
        found.append((filled, window, source))
    return found


def latest(local):
    """The latest event time of each source, as committed."""
    last = local.service.serving.last
    assert last is not None
    return last.latest


def moments(counter):
    """Times as the service writes them."""
    return {
        tuple(v.isoformat() + "Z" if hasattr(v, "isoformat") else plain(v) for v in row): n
        for row, n in counter.items()
    }


JOINS = [
    f"SELECT a.time, a.x, b.x {JOIN} WHERE a.x > 1",
    f"SELECT a.time, b.n {JOIN} WHERE b.n = 2",
    "SELECT a.time, b.x FROM beta a JOIN gamma b ON b.time BETWEEN a.time - INTERVAL '1 second' AND a.time + INTERVAL '1 second' WHERE b.x > a.x",  # noqa: E501
    f"SELECT a.time, c.x {JOIN} JOIN gamma c ON c.n = b.n AND c.time BETWEEN a.time AND a.time + INTERVAL '9 seconds'",
]


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.full) for s in range(2, 8))])
def test_answers_do_not_depend_on_servers_or_restarts(tmp_path, seed) -> None:
    rng = np.random.default_rng(seed)
    local = Local(tmp_path)
    queries = random_queries(rng, 25)
    numbers = local.add(*(text for text, _, _ in queries))
    joins = dict(zip(local.add(*JOINS), JOINS, strict=True))
    rows = rows_of(rng, 300)
    for batch in batches_of(rows, rng.integers(0, 300, 7).tolist()):
        act = rng.integers(4)
        if act == 0 and len(local.service.computations.alive) > 1:
            local.service.lose_server(int(rng.choice(sorted(local.service.computations.alive))))
        elif act == 1:
            local.service.add_server()
        elif act == 2:
            before = {i: c.server for i, c in local.service.computations.all.items()}
            local.restart()
            assert {i: c.server for i, c in local.service.computations.all.items()} == before
        local.feed(batch)
        local.service.serving(batch, local.batch - 1)  # delivered again: nothing happens
    marks = {s: t - 5_000_000 for s, t in latest(local).items()}
    for number, (text, window, source) in zip(numbers, queries, strict=True):
        assert local.answers(number) == moments(oracle(text, window, rows, source, marks[source])), text
    tables = {name: named(rows, source) for source, name in enumerate(NAMES)}
    for number, text in joins.items():
        assert local.answers(number) == moments(asked(text, **tables)), text
    local.service.close()


def test_equal_queries_are_one_computation(local) -> None:
    text = "SELECT x FROM alpha WHERE n > 2"
    numbers = local.add(*[text] * 5, text.replace("2", "3"))
    assert len(local.service.computations.all) == 2
    assert local.service.explain_query(local.ann, numbers[0])["queries_of_computation"] == 5
    for number in numbers[:5]:
        local.service.queries.remove("ann", number)
    assert len(local.service.computations.all) == 1


def test_a_crash_before_the_commit_leaves_nothing(local, monkeypatch) -> None:
    (number,) = local.add("SELECT count(*) FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')")
    rows = rows_of(np.random.default_rng(3), 200)
    first, second = batches_of(rows, [100])
    local.feed(first)
    with monkeypatch.context() as patched:
        patched.setattr("headgate.service.batch.serving.CommitLog.commit", lambda *a: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            local.feed(second)
    local.restart()
    local.feed(second)
    window = ("TUMBLE(time, INTERVAL '10 seconds')", 10, 10)
    mark = latest(local)[0] - 5_000_000
    text = "SELECT count(*) FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
    assert local.answers(number) == oracle(text, window, rows, 0, mark)


def test_a_service_that_slept_neither_commits_nor_removes(local, tmp_path) -> None:
    local.add("SELECT count(*) FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')")
    parts = batches_of(rows_of(np.random.default_rng(3), 600), [100, 200, 300, 400, 500])
    local.feed(parts[0])
    old = local.service
    local.start()
    for part in parts[1:]:
        local.feed(part)
    store = local.service.serving.store
    names = {folder: store.names(folder) for folder in ("state", "results", "constants")}
    with pytest.raises(Superseded, match=r"another driver has taken over .*process \d+ on "):
        old.serving(parts[1], 1)
    assert old.serving.superseded
    assert all(set(found) <= set(store.names(folder)) for folder, found in names.items())
    old.close()
    local.restart()
    assert local.service.serving.last.batch == 5


def test_a_service_whose_state_was_deleted_does_not_begin_in_the_midst(local, tmp_path) -> None:
    rows = batches_of(rows_of(np.random.default_rng(3), 200), [100])
    local.add("SELECT x FROM alpha")
    local.feed(rows[0])
    local.service.serving.store.remove("")
    local.restart()
    with pytest.raises(BatchOrder, match="Spark delivers batch 1, but nothing is committed"):
        local.feed(rows[1])


def test_a_query_that_comes_late_sees_whole_windows_only(local) -> None:
    text = "SELECT count(*), window_start FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
    local.add(text)
    rows = rows_of(np.random.default_rng(4), 400)
    first, second = batches_of(rows, [100])
    local.feed(first)
    (late,) = local.add(text)
    local.feed(second)
    since, mark = (int(np.max(named(r, 0).column("time").cast(pa.int64()).to_numpy())) for r in (first, rows))
    window = ("TUMBLE(time, INTERVAL '10 seconds')", 10, 10)
    whole = oracle(text, window, rows, 0, mark - 5_000_000)
    expected = {
        row: n
        for row, n in whole.items()
        if row[1].timestamp() * 1e6 > since or row[1].replace().timestamp() > since / 1e6
    }
    assert local.answers(late) == moments(expected)
    assert 0 < len(expected) < len(whole)


def test_a_query_that_fails_stops_alone_with_its_reason(local) -> None:
    bad, good = local.add(
        "SELECT CAST(city AS BIGINT) FROM alpha WHERE n > 0",
        "SELECT CAST(city AS BIGINT) FROM alpha WHERE n > 9",
    )
    rows = rows_of(np.random.default_rng(5), 100)
    local.feed(rows)
    one = local.service.queries.get("ann", bad)
    assert one.state == "failed"
    assert "Could not convert" in one.why
    assert local.service.queries.get("ann", good).state == "active"
    local.feed(rows)


def test_a_registered_function_that_raises_stops_its_queries_alone(tmp_path) -> None:
    def shaky(x):
        if x.to_pylist().count(None):
            raise ValueError("no nulls please")
        return x

    local = Local(tmp_path, functions={"shaky": Function("shaky", ("double",), "double", shaky)})
    bad, good = local.add("SELECT shaky(x) FROM alpha", "SELECT shaky(x) FROM alpha WHERE x IS NOT NULL")
    local.feed(rows_of(np.random.default_rng(5), 100))
    assert "no nulls please" in local.service.queries.get("ann", bad).why
    assert local.service.queries.get("ann", good).state == "active"
    assert local.answers(good)
    local.service.close()


def test_rows_out_are_bounded(tmp_path) -> None:
    local = Local(tmp_path, limits=Limits(rows_out=5))
    (number,) = local.add("SELECT x FROM alpha")
    rows = rows_of(np.random.default_rng(5), 100)
    local.feed(rows)
    assert sum(local.answers(number).values()) == 5
    found, _ = local.service.read(local.ann, number)
    assert [row.get("cut") for row in found] == [None] * 4 + [named(rows, 0).num_rows - 5]
    local.service.close()


def test_a_join_that_keeps_too_much_stops_alone(tmp_path) -> None:
    local = Local(tmp_path, limits=Limits(state_rows=40), servers=1)
    text = "SELECT a.x, b.x FROM alpha a JOIN beta b ON a.n = b.n AND b.time BETWEEN a.time - INTERVAL '{} seconds' AND a.time"
    long, short = local.add(text.format(600), text.format(1))
    rows = rows_of(np.random.default_rng(5), 400)
    for batch in batches_of(rows, range(0, 400, 20)):
        local.feed(batch)
    assert "rows of one source, and 40 is the limit" in local.service.queries.get("ann", long).why
    assert local.answers(short) == asked(text.format(1), alpha=named(rows, 0), beta=named(rows, 1))
    local.service.close()


def test_pause_resume_and_remove(local) -> None:
    (number,) = local.add("SELECT x FROM alpha")
    rows = rows_of(np.random.default_rng(6), 50)
    local.feed(rows)
    assert local.answers(number)
    assert local.service.queries.pause("ann", number).state == "paused"
    assert not local.service.computations.all
    local.feed(rows)
    local.service.resume(local.ann, number)
    assert not local.answers(number)
    local.restart()
    local.feed(rows)
    assert sum(local.answers(number).values()) == named(rows, 0).num_rows
    local.service.queries.remove("ann", number)
    with pytest.raises(NotFound):
        local.service.read(local.ann, number)


def test_tenants_see_their_own(local) -> None:
    (number,) = local.add("SELECT x FROM alpha")
    bob = local.service.tenants.of(local.service.tenants.add("bob"))
    for act in (lambda: local.service.read(bob, number), lambda: local.service.queries.remove("bob", number)):
        with pytest.raises(NotFound):
            act()
    with pytest.raises(AccessDenied):
        local.service.push_events(bob, "alpha", [{"time": 1}])
    with pytest.raises(AccessDenied):
        local.service.tenants.of("guess")
    assert local.service.queries.of("bob") == []


def test_too_many_queries_are_refused_by_name(tmp_path) -> None:
    local = Local(tmp_path, limits=Limits(queries=3))
    answers = local.service.register(local.ann, [("SELECT x FROM alpha", "")] * 5)
    assert [type(a).__name__ for a in answers] == ["Query"] * 3 + ["QueryRefused"] * 2
    assert isinstance(answers[-1], QueryRefused)
    assert answers[-1].reason == "too-many-queries"
    local.service.close()


def test_old_results_go_and_say_so(tmp_path) -> None:
    local = Local(tmp_path, kept_batches=3)
    (number,) = local.add("SELECT x FROM alpha")
    rows = rows_of(np.random.default_rng(6), 30)
    for _ in range(6):
        local.feed(rows)
    with pytest.raises(CursorGone, match="oldest are of batch 3"):
        local.service.read(local.ann, number, "1.0")
    found, cursor = local.service.read(local.ann, number)
    assert {row["batch"] for row in found} == {3, 4, 5}
    assert local.service.read(local.ann, number, cursor) == ([], cursor)
    with pytest.raises(ConfigError):
        local.service.read(local.ann, number, "x")
    local.service.close()


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"x": 1}, "event 0 has time None"),
        ({"time": "yesterday"}, "event 0 has time 'yesterday'"),
        ({"time": 1e300}, "event 0 has time"),
        ({"time": 1, "y": 2}, "event 0 has 'y'"),
        ({"time": 1, "x": "warm"}, "event 0 has x='warm', which is no double"),
        ({"time": 1, "n": 1.5}, "which is no bigint"),
        ({"time": 1, "n": 1 << 70}, "which is no bigint"),
        ([1], "event 0 is not an object"),
    ],
)
def test_malformed_events_are_refused_by_number_and_field(local, event, told) -> None:
    with pytest.raises(ConfigError, match=told.replace("(", "\\(")):
        local.service.push_events(local.ann, "alpha", [event])


def test_pushed_events_are_files_before_they_are_acknowledged(local) -> None:
    import pyarrow.parquet as pq

    events = [{"time": "2026-01-01T00:00:00Z", "x": 1, "city": "ash"}, {"time": 1.5, "n": 3}]
    assert local.service.push_events(local.ann, "beta", events) == 2
    (name,) = local.service.push.store.names("")
    rows = pq.read_table(local.service.push.store.path(name)).to_pylist()
    assert [(r["source"], r["d0"], r["v0"], r["l0"]) for r in rows] == [
        (1, 1.0, "ash", None),
        (1, None, None, 3),
    ]


def test_results_that_are_let_go_while_they_are_read_are_gone_by_name(tmp_path, monkeypatch) -> None:
    local = Local(tmp_path, kept_batches=2)
    (number,) = local.add("SELECT x FROM alpha")
    rows = rows_of(np.random.default_rng(5), 50)
    local.feed(rows)
    results, read = local.service.results, list[Stored]()

    def slow(stored, real=results._table):
        if not read:
            read.append(stored)
            for _ in range(3):
                local.feed(rows)
        return real(stored)

    monkeypatch.setattr(results, "_table", slow)
    with pytest.raises(CursorGone, match="the oldest are of batch 2"):
        local.service.read(local.ann, number)
    assert local.service.read(local.ann, number)[0][0]["batch"] == 2
    local.service.close()


def test_a_row_from_far_ahead_is_counted_once_and_closes_nothing(tmp_path) -> None:
    local = Local(tmp_path, servers=3)
    text = "SELECT count(*) FROM alpha WHERE n > {} GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
    local.add(*(text.format(n) for n in range(6)))
    (all_rows,) = local.add("SELECT count(*), sum(x) FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')")
    rows = rows_of(np.random.default_rng(5), 200)
    local.feed(rows.slice(0, 100))
    stray = rows.slice(0, 1).set_column(1, "time", pa.array([10**15], pa.timestamp("us")))
    stray = stray.set_column(0, "source", pa.array([0], pa.int32()))
    local.feed(pa.concat_tables([rows.slice(100, 50), stray]))
    assert local.service.facts[-1]["far_ahead"] == 1
    local.feed(rows.slice(150, 50))
    mark = latest(local)[0] - 5_000_000
    window = ("TUMBLE(time, INTERVAL '10 seconds')", 10, 10)
    asked_for = "SELECT count(*), sum(x) FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
    assert local.answers(all_rows) == oracle(asked_for, window, rows, 0, mark)
    assert mark < 10**9
    local.service.close()
