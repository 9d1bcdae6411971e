"""Nothing that a tenant registers or sends stops a batch: what fails is stopped by itself, and its owner is told."""

import httpx
import numpy as np
import pyarrow as pa
import pytest
from tests.service.local import Local
from tests.sql.world import NAMES, asked, named, rows_of

import headgate as hg
from headgate.errors import QueryFailed
from headgate.service import results as results_module
from headgate.service.batch import server_work as work_module
from headgate.service.batch import task_output as output_module
from headgate.sql.shared import step


def states(local, *numbers):
    return [local.service.get_query(local.ann, number).state for number in numbers]


@pytest.mark.parametrize("constants", ["[99999999999999999999]", '["a"]', "[]"])
def test_a_constant_that_an_earlier_version_took_stops_its_query_alone(local, constants) -> None:
    bad, good = local.add("SELECT x FROM alpha WHERE n > 1", "SELECT x FROM alpha WHERE n > 2")
    computation = local.service.queries.by_id[bad].computation
    local.service._registry.write(
        ("UPDATE computations SET constants = ? WHERE id = ?", [(constants, computation)])
    )
    local.restart()
    rows = rows_of(np.random.default_rng(1), 80)
    for _ in range(2):
        local.feed(rows)
        local.restart()
    assert states(local, bad, good) == ["failed", "active"]
    assert "do not fit" in local.service.get_query(local.ann, bad).why
    assert local.answers(good)


def test_a_step_that_breaks_in_an_unknown_way_stops_its_queries_alone(local, monkeypatch) -> None:
    bad, good = local.add("SELECT city FROM alpha WHERE n > 0", "SELECT city FROM alpha WHERE n > 1")
    number = local.service.queries.by_id[bad].computation

    def breaking(work, engine):
        if number in work.constants.column("id").to_pylist():
            raise pa.ArrowCapacityError("a text is too long")
        return step(work, engine)

    monkeypatch.setattr(work_module, "step", breaking)
    local.feed(rows_of(np.random.default_rng(1), 80))
    assert states(local, bad, good) == ["failed", "active"]
    assert "a text is too long" in local.service.get_query(local.ann, bad).why
    assert local.answers(good)


@pytest.mark.parametrize("us", [-(1 << 62), (1 << 63) - 1, -(1 << 63), (1 << 62)])
def test_a_row_whose_time_nothing_can_compute_with_is_left_out(local, us) -> None:
    texts = [
        "SELECT x FROM alpha",
        "SELECT count(*), window_end FROM alpha GROUP BY HOP(time, INTERVAL '1 second', INTERVAL '10 seconds')",
        "SELECT count(*) FROM alpha GROUP BY LAST 3 ROWS",
        "SELECT a.x FROM alpha a JOIN beta b ON a.n = b.n AND b.time BETWEEN a.time - INTERVAL '1 second' AND a.time",
    ]
    numbers = local.add(*texts)
    rows = rows_of(np.random.default_rng(1), 80)
    bad = rows.slice(0, 1).set_column(1, "time", pa.array([us], pa.timestamp("us")))
    bad = bad.set_column(0, "source", pa.array([0], pa.int32()))
    local.feed(pa.concat_tables([bad, rows, bad]))
    local.feed(rows)
    assert states(local, *numbers) == ["active"] * 4
    assert sum(local.answers(numbers[0]).values()) == 2 * named(rows, 0).num_rows


def test_a_reason_that_quotes_a_row_can_be_kept_by_any_database(local) -> None:
    (bad,) = local.add("SELECT CAST(city AS BIGINT) FROM alpha")
    rows = rows_of(np.random.default_rng(1), 20)
    local.feed(rows.set_column(3, "v0", pa.array(["x\0y"] * 20)))
    why = local.service.get_query(local.ann, bad).why
    assert "is no bigint" in why
    assert "\0" not in why


def test_ready_says_what_failed_and_whose_and_the_reader_is_told(served) -> None:
    served.service.running = True
    bad, good = served.add("SELECT CAST(city AS BIGINT) FROM alpha", "SELECT x FROM alpha")
    with hg.service.Client(served.url, served.token) as client:
        tail = client.tail(bad)
        served.feed(rows_of(np.random.default_rng(1), 20))
        with pytest.raises(QueryFailed, match="is no bigint"):
            next(tail)
        ready = httpx.get(f"{served.url}/ready").json()
        assert (ready["ready"], ready["failed"]) == (True, {"count": 1})
        admin = {"Authorization": f"Bearer {served.service.add_tenant('root', admin=True)}"}
        ready = httpx.get(f"{served.url}/ready", headers=admin).json()
        assert ready["ready"]
        assert ready["failed"] == {"count": 1, "latest": [{"query": bad, "tenant": "ann"}]}
        assert "convert" not in str(ready)
        served.restart()
        assert served.service.quarantined() == ([{"query": bad, "tenant": "ann"}], 1)
        assert states(served, good) == ["active"]
        served.service.remove(served.ann, bad)
        assert served.service.quarantined() == ([], 0)


def test_the_results_of_a_batch_do_not_depend_on_how_rows_came(tmp_path) -> None:
    texts = [
        "SELECT x, city FROM alpha",
        "SELECT x, count(*) FROM alpha GROUP BY x, TUMBLE(time, INTERVAL '1 second')",
    ]
    rows = rows_of(np.random.default_rng(3), 60_000)
    small, large = (Local(tmp_path / name) for name in ("small", "large"))
    numbers = [local.add(*texts) for local in (small, large)]
    for begin in range(0, rows.num_rows, 7_000):
        small.feed(rows.slice(begin, 7_000))
    large.feed(rows)
    for one, other in zip(*numbers, strict=True):
        found = large.answers(other, limit=3_000)
        assert found == small.answers(one, limit=3_000)
    assert sum(large.answers(numbers[1][0], limit=5_000).values()) == named(rows, 0).num_rows > 10_000
    for local in (small, large):
        local.service.close()


def test_results_that_do_not_fit_in_memory_together_go_to_disk_before_the_batch_ends(
    local, monkeypatch
) -> None:
    monkeypatch.setattr(output_module, "MAX_WAITING_BYTES", 1_000)
    texts = [f"SELECT x, n + {k} FROM alpha WHERE n {sign} 2" for k in range(3) for sign in ("<", ">", "=")]
    texts += ["SELECT city FROM alpha", "SELECT x FROM beta", "SELECT time FROM gamma"]
    numbers = local.add(*texts)
    rows = rows_of(np.random.default_rng(3), 600)
    local.feed(rows)
    files = local.service.batch_log.history[-1].result_files
    assert len(files) > 3
    assert all(local.service.batch_log.commits.is_older(name) for name in files)
    tables = {name: named(rows, i) for i, name in enumerate(NAMES)}
    for number, text in zip(numbers, texts[:11], strict=False):
        assert local.answers(number) == asked(text, **tables)
    assert sum(local.answers(numbers[-1]).values()) == tables["gamma"].num_rows


def test_a_page_of_results_decodes_no_more_than_the_page(local, monkeypatch) -> None:
    (number,) = local.add("SELECT x FROM alpha")
    rows = rows_of(np.random.default_rng(3), 3_000)
    local.feed(rows)
    decoded, plain = [], results_module.result_json

    def counted(row, *more):
        decoded.append(row)
        return plain(row, *more)

    monkeypatch.setattr(results_module, "result_json", counted)
    page, cursor = local.service.read(local.ann, number, None, 10)
    following, _ = local.service.read(local.ann, number, cursor, 10)
    assert len(decoded) == 20
    times = np.sort(named(rows, 0).column("time").to_pylist())[:20]
    assert [row["time"] for row in page + following] == [
        (t.isoformat() if hasattr(t, "isoformat") else str(t)) + "Z" for t in times
    ]
