"""Tenants without time wait, and nobody else does: over batches, restarts and lost servers the results are the same."""

from unittest.mock import patch

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.service.local import PATIENT, Local
from tests.sql.world import NAMES, batches_of, rows_of
from typer.testing import CliRunner

import headgate as hg
from headgate.cli import app
from headgate.errors import ConfigError, CursorGone, QueryRefused, QuotaExceeded
from headgate.service.batch import server_work
from headgate.service.batch.catch_up import CatchUp
from headgate.service.http.background import listening
from headgate.service.queries import Query
from headgate.service.tenant_use import Fairness, Owners, TenantUse, number_of
from headgate.sql import deferral
from headgate.sql.deferred import waits
from headgate.sql.limits import Limits

LITTLE = 1e-9
TEXTS = [
    "SELECT x, city FROM {s} WHERE n > {n}",
    "SELECT city, count(*), sum(x), window_end FROM {s} WHERE n > {n} GROUP BY city, HOP(time, INTERVAL '2 seconds', INTERVAL '6 seconds')",
    "SELECT city, sum(n) FROM {s} WHERE n > {n} GROUP BY city, LAST 4 ROWS",
]


def with_bob(local):
    local.bob = local.service.authenticate(local.service.add_tenant("bob"))
    for name in NAMES:
        local.service.grant(local.ann, name, "bob")
    return local


def add(local, tenant, *texts):
    answers = local.service.register(tenant, [(text, "") for text in texts])
    assert all(isinstance(answer, Query) for answer in answers), answers
    return [answer.id for answer in answers]


def behind(local):
    return {label for (_, _, label) in local.service.batch_log.last.pieces if waits(label)}


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 10**6),
    st.lists(st.sampled_from(["run", "wait", "few", "lose", "restart"]), min_size=3, max_size=5),
)
def test_whoever_waits_reads_the_same_in_the_end(tmp_path_factory, seed, acts) -> None:
    """With `few`, others wait for bob, so that it gets a few rows at a time."""
    with patch.object(deferral, "FIRST_ROWS", 2), patch.object(server_work, "FIRST_ROWS", 2):
        waits_and_reads_the_same(tmp_path_factory, seed, acts)


def waits_and_reads_the_same(tmp_path_factory, seed, acts) -> None:
    rng = np.random.default_rng(seed)
    rows = rows_of(rng, 120)
    batches = [*batches_of(rows, rng.integers(0, 120, len(acts) - 1)), rows.slice(0, 0)]
    plain, waiting = (with_bob(Local(tmp_path_factory.mktemp("w"), servers=2)) for _ in range(2))
    numbers = []
    for local in (plain, waiting):
        texts = [text.format(s=name, n=n) for text in TEXTS for name in NAMES[:2] for n in (0, 2)]
        numbers = [
            (t, n)
            for t in ("ann", "bob")
            for n in add(
                local, getattr(local, t), *[x.replace("n >", "n >=") if t == "bob" else x for x in texts]
            )
        ]
    for act, batch in zip([*acts, "run"], batches, strict=True):
        plain.feed(batch)
        waiting.service.set_limits("bob", {"tenant_seconds": None if act in ("run", "few") else LITTLE})
        waiting.service.set_limits("bob", {"batch_part": LITTLE if act == "few" else None})
        if act == "lose":
            waiting.service.add_server()
            waiting.service.lose_server(min(waiting.service.computations.alive))
        if act == "restart":
            waiting.restart()
        waiting.feed(batch)
    waiting.service.set_limits("bob", {"tenant_seconds": 1e6, "batch_part": None})
    for _ in range(60):
        if not behind(waiting):
            break
        waiting.feed(rows.slice(0, 0))
    assert behind(waiting) == set()
    for tenant, number in numbers:
        assert waiting.answers_of(getattr(waiting, tenant), number) == plain.answers_of(
            getattr(plain, tenant), number
        )
    for local in (plain, waiting):
        local.service.close()


def test_a_tenant_over_its_budget_waits_and_its_neighbour_does_not(tmp_path) -> None:
    local = with_bob(Local(tmp_path, servers=1))
    (mine,) = add(local, local.ann, "SELECT x FROM alpha WHERE n > 1")
    theirs = add(local, local.bob, *[f"SELECT x FROM alpha WHERE n > 1 AND x > {k}" for k in range(-9, 0)])
    local.service.set_limits("bob", {"tenant_seconds": LITTLE})
    rows = rows_of(np.random.default_rng(1), 90)
    for batch in batches_of(rows, [30, 60]):
        local.feed(batch)
    assert sum(local.answers(mine).values()) > 0
    assert {local.service.get_query(local.bob, number).state for number in theirs} == {"active"}
    number = number_of("bob")
    assert local.service.usage.of(number).waiting_rows > 0
    assert local.service.usage.of(number_of("ann")).waiting_rows == 0
    assert local.service.usage.state_bytes(number) > 0
    local.service.set_limits("bob", {"tenant_seconds": None})
    now = iter(range(100))
    catch_up = CatchUp(local.service, local.processor, lambda: rows.slice(0, 0), lambda: float(next(now)))
    assert not catch_up.look()  # rows may come
    while catch_up.look() or behind(local):
        pass
    assert not local.processor.catch_up(rows.slice(0, 0))
    assert behind(local) == set()
    assert all(local.answers_of(local.bob, number) for number in theirs)
    local.service.close()


def test_a_query_that_begins_later_does_not_see_rows_that_waited_since_before(tmp_path) -> None:
    local = with_bob(Local(tmp_path, servers=1))
    first, other = add(local, local.bob, "SELECT x FROM alpha", "SELECT city FROM alpha")
    add(local, local.ann, "SELECT n FROM alpha")
    local.service.set_limits("bob", {"tenant_seconds": LITTLE})
    rows = rows_of(np.random.default_rng(1), 60)
    for batch in batches_of(rows, [20, 40]):
        local.feed(batch)
    assert behind(local)
    later = add(local, local.bob, "SELECT x FROM alpha", "SELECT city FROM alpha")
    local.service.set_limits("bob", {"tenant_seconds": 1e6})
    for _ in range(20):
        local.feed(rows.slice(0, 0))
    assert local.answers_of(local.bob, first).total() == local.answers_of(local.bob, other).total() > 0
    assert [local.answers_of(local.bob, number).total() for number in later] == [0, 0]
    local.service.close()


def test_state_above_a_limit_stops_the_largest_query_of_its_tenant_alone(tmp_path) -> None:
    local = with_bob(Local(tmp_path, servers=1))
    wide = "SELECT {}, count(*) FROM alpha WHERE n > {} GROUP BY {}, TUMBLE(time, INTERVAL '1 hour')"
    (mine,) = add(local, local.ann, wide.format("x", 0, "x"))
    large, small = add(local, local.bob, wide.format("x", -1, "x"), wide.format("n", 3, "n"))
    first, second, third = batches_of(rows_of(np.random.default_rng(1), 300), [100, 200])
    local.feed(first)
    local.feed(second)
    assert local.service.get_query(local.bob, large).state == "active"
    kept = local.service.usage.state_bytes(number_of("bob"))
    local.service.set_limits("bob", {"state_bytes": kept})
    local.feed(third)
    query = local.service.get_query(local.bob, large)
    assert query.state == "failed"
    assert "state_bytes" in query.why
    assert local.service.get_query(local.bob, small).state == "active"
    assert local.service.get_query(local.ann, mine).state == "active"
    local.service.close()


def test_results_above_a_limit_can_be_read_for_a_shorter_time_by_their_tenant(tmp_path) -> None:
    local = with_bob(Local(tmp_path, servers=1))
    (mine,), (theirs,) = (
        add(local, local.ann, "SELECT x FROM alpha"),
        add(local, local.bob, "SELECT city FROM alpha"),
    )
    batches = batches_of(rows_of(np.random.default_rng(1), 300), range(30, 300, 30))
    for batch in batches:
        local.feed(batch)
    whole = local.answers_of(local.bob, theirs).total()
    per_batch = local.service.usage.result_bytes(number_of("bob")) // len(batches)
    local.service.set_limits("bob", {"result_bytes": 3 * per_batch})
    assert 0 < local.answers_of(local.bob, theirs).total() < whole
    with pytest.raises(CursorGone, match="result_bytes"):
        local.service.read(local.bob, theirs, "1.0")
    assert local.answers(mine).total() == whole
    local.service.set_limits("bob", {"result_bytes": 1})
    assert local.answers_of(local.bob, theirs).total() > 0  # the newest batch stays
    local.service.close()


@given(part=st.floats(0.01, 1.1), begin=st.integers(0, 2), cursor=st.integers(0, 8), page=st.integers(1, 40))
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nobody_reads_more_result_bytes_than_its_limit(tmp_path_factory, part, begin, cursor, page) -> None:
    """From any cursor on: only whole batches are readable, the newest ones, which are within the limit together; and the
    newest one, whatever its size.
    """
    local = with_bob(Local(tmp_path_factory.mktemp("bytes"), servers=1))
    batches = batches_of(rows_of(np.random.default_rng(1), 160), range(20, 160, 20))
    for batch in batches[:begin]:
        local.feed(batch)
    (number,) = add(local, local.bob, "SELECT city FROM alpha")
    for batch in batches[begin:]:
        local.feed(batch)
    sizes = dict(local.service.usage._results)
    limit = max(1, int(part * local.service.usage.result_bytes(number_of("bob"))))
    local.service.set_limits("bob", {"result_bytes": limit})
    try:
        rows, _ = local.service.read(local.bob, number, f"{cursor}.0", page)
    except CursorGone:
        rows = []
    shown = {row["batch"] for row in rows}
    kept = sum(sizes[batch].get(number_of("bob"), 0) for batch in sizes if batch >= min(shown, default=99))
    assert kept <= limit or shown == {max(sizes)}
    local.service.close()


def test_rows_that_wait_are_in_lag(tmp_path) -> None:
    local = with_bob(Local(tmp_path, servers=1))
    add(local, local.bob, *[f"SELECT x FROM alpha WHERE x > {k}" for k in range(3)])
    rows = rows_of(np.random.default_rng(1), 90)
    local.service.set_limits("bob", {"tenant_seconds": LITTLE})
    for batch in batches_of(rows, [30, 60]):
        local.feed(batch)
    waiting = local.service.usage.of(number_of("bob")).waiting_rows
    assert waiting > 0
    lag = local.service.lag()
    assert (lag["rows"], lag["waiting_rows"], lag["waiting"]) == (0, waiting, {"bob": waiting})
    with listening(local.service) as url:
        seen = httpx.get(f"{url}/ready").json()["lag"]
        assert seen["waiting_rows"] == waiting
        assert "waiting" not in seen, "whose rows wait is for admins"
    local.service.set_limits("bob", {"tenant_seconds": 1e6})
    for _ in range(60):
        if not behind(local):
            break
        local.feed(rows.slice(0, 0))
    assert (local.service.lag()["waiting_rows"], local.service.lag()["waiting"]) == (0, {})
    local.service.close()


def test_a_tenants_own_limits_are_in_force_and_durable(local) -> None:
    with_bob(local)
    local.service.set_limits("bob", {"templates": 1, "sources": 1, "queries": 2})
    (one, two, three) = local.service.register(
        local.bob, [("SELECT x FROM alpha", ""), ("SELECT n FROM alpha", ""), ("SELECT x FROM beta", "")]
    )
    assert isinstance(two, QueryRefused)
    assert (isinstance(one, Query), isinstance(three, Query)) == (True, True)
    with pytest.raises(QuotaExceeded, match="at most 1"):
        local.service.add_sources(local.bob, [{"name": n, "columns": {"x": "double"}} for n in ("b1", "b2")])
    local.restart()
    assert local.service.tenant_limits.of("bob").templates == 1
    assert local.service.tenant_limits.of("ann") == PATIENT
    local.service.set_limits("bob", {"templates": None})
    assert local.service.tenant_limits.of("bob").templates == Limits().templates
    with pytest.raises(ConfigError, match="above 0"):
        local.service.set_limits("bob", {"queries": 0})
    with pytest.raises(ConfigError, match="not one of a tenant"):
        local.service.set_limits("bob", {"cost": 3})


def test_usage_is_shown_to_its_tenant_and_to_admins(served, monkeypatch) -> None:
    root = served.service.add_tenant("root", admin=True)
    served.add(
        "SELECT x FROM alpha",
        "SELECT city, count(*) FROM alpha GROUP BY city, TUMBLE(time, INTERVAL '1 hour')",
    )
    served.feed(rows_of(np.random.default_rng(1), 80))
    with hg.service.Client(served.url, served.token) as client, hg.service.Client(served.url, root) as admin:
        own = client.usage()
        assert (own["tenant"], own["queries"], own["templates"], own["sources"]) == ("ann", 2, 2, 3)
        assert own["rows"] > 0
        assert own["results"] > 0
        assert own["cpu_s"] > 0
        assert own["state_bytes"] > 0
        assert own["result_bytes"] > 0
        assert "tenants" not in own
        with pytest.raises(hg.errors.AccessDenied):
            client.set_limits("ann", queries=5)
        assert admin.set_limits("ann", queries=5, state_bytes=None)["queries"] == 5
        every = {one["tenant"]: one for one in admin.usage()["tenants"]}
        assert every["ann"]["limits"]["queries"] == 5
        assert None in every
        assert "ann" not in str(client.traffic())
        with pytest.raises(ConfigError):
            admin.set_limits("ann", queries=-1)
    text = httpx.get(f"{served.url}/metrics").text
    assert "headgate_waiting_rows 0" in text
    assert '"ann"' not in text
    monkeypatch.setenv("HEADGATE_URL", served.url)
    monkeypatch.setenv("HEADGATE_TOKEN", root)
    run = CliRunner()
    assert "ann" in run.invoke(app, ["usage"]).output
    assert "queries: 7" in run.invoke(app, ["usage", "--tenant", "ann", "--limit", "queries=7"]).output
    assert run.invoke(app, ["usage", "--tenant", "ann", "--limit", "queries="]).exit_code == 0
    assert "--limit needs --tenant" in run.invoke(app, ["usage", "--limit", "queries=7"]).output
    assert "write NAME=VALUE" in run.invoke(app, ["usage", "--tenant", "ann", "--limit", "queries"]).output


def test_a_computation_that_several_share_is_paid_for_by_none_of_them_alone(tmp_path) -> None:
    local = with_bob(Local(tmp_path, servers=1))
    add(local, local.bob, "SELECT x FROM alpha", "SELECT city FROM alpha")
    rows = rows_of(np.random.default_rng(1), 40)
    local.feed(rows)
    (mine,) = add(local, local.ann, "SELECT x FROM alpha")
    local.service.set_limits("bob", {"tenant_seconds": LITTLE})
    before = local.service.usage.of(number_of("ann"))
    for _ in range(3):
        local.feed(rows)
    assert local.answers(mine)
    assert local.service.usage.of(0).results > 0
    assert before.results == local.service.usage.of(number_of("ann")).results == 0
    local.service.close()


def test_numbers_of_tenants_and_their_weights() -> None:
    assert number_of("ann") == number_of("ann") != number_of("bob") != 0
    ids, known, owners = np.array([3, 3, 5, 9]), np.array([5, 3, 4]), np.array([70, 71, 70])
    assert Owners(known, owners).weights(ids) == ((71, 2), (70, 1))
    assert Owners(known, np.array([7, 7, 7])).weights(ids) == ((7, 4),)
    assert Owners(known, owners).weights(ids[:0]) == ()
    assert TenantUse(1, 2, 3, 4, 5, 6).plus(TenantUse(1, 1, 1, 1, 1, 9)) == (2, 3, 4, 5, 6, 9)
    fairness = Fairness({3: (0.5, 0.1)}, {7: 100})
    assert Fairness.from_json(fairness.to_json()) == fairness
