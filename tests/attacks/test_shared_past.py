"""What a tenant reads never depends on whether another tenant had the same query before; and what is lost is named."""

import pytest
from tests.service.local import Local
from tests.sql.world import at_seconds

from headgate.errors import CorruptState
from headgate.service.service import Service
from headgate.service.settings import Settings

JOIN = (
    "SELECT a.time, b.time FROM alpha a JOIN beta b ON a.city = b.city"
    " AND b.time BETWEEN a.time - INTERVAL '10 seconds' AND a.time WHERE a.n > 0"
)
LAST = "SELECT sum(n) FROM alpha WHERE n > 0 GROUP BY LAST 5 ROWS"


def bob_reads(local, before):
    local.add("SELECT x FROM alpha UNION ALL SELECT x FROM beta", *before)
    local.feed(at_seconds((1, 20), (0, 15)))
    bob = local.service.authenticate(local.service.add_tenant("bob"))
    for name in ("alpha", "beta"):
        local.service.grant(local.ann, name, "bob")
    queries = local.service.register(bob, [(JOIN, ""), (LAST, "")])
    local.feed(at_seconds((0, 25)))
    local.feed(at_seconds((0, 45)))
    return [[row["values"] for row in local.service.read(bob, query.id)[0]] for query in queries]


def test_an_equal_query_of_another_tenant_shows_nothing_of_its_past(tmp_path) -> None:
    alone, beside = Local(tmp_path / "alone"), Local(tmp_path / "beside")
    assert bob_reads(alone, ()) == bob_reads(beside, (JOIN, LAST))
    numbers = beside.add(JOIN, JOIN)
    shared = {beside.service.get_query(beside.ann, number).computation for number in numbers}
    assert len(shared) == 1, "the queries of one tenant share"
    beside.restart()
    (again,) = beside.add(JOIN)
    assert beside.service.get_query(beside.ann, again).computation in shared
    alone.service.close()
    beside.service.close()


def test_a_union_waits_like_any_other_query(local) -> None:
    bob = local.service.authenticate(local.service.add_tenant("bob"))
    for name in ("alpha", "beta"):
        local.service.grant(local.ann, name, "bob")
    union = "SELECT n FROM alpha UNION ALL SELECT n FROM beta"
    inner = union.replace("n FROM", "time, n FROM")
    windows = f"SELECT count(*) FROM ({inner}) GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
    rows, panes = local.service.register(
        bob, [(union, ""), (windows.replace("count(*)", "count(*) + 0"), "")]
    )
    (right,) = local.add(windows)
    local.service.set_limits("bob", {"tenant_seconds": 1e-9})
    for step in range(4):
        local.feed(at_seconds((0, 10 * step + 1), (1, 10 * step + 2)))
    local.service.set_limits("bob", {"tenant_seconds": None})
    while local.processor.catch_up(at_seconds((0, 1)).slice(0, 0)):
        pass
    assert [local.service.get_query(bob, query.id).state for query in (rows, panes)] == ["active", "active"]
    assert len(local.service.read(bob, rows.id)[0]) == 8
    counted = [row["values"] for row in local.service.read(bob, panes.id)[0]]
    assert [list(one.values()) for one in counted] == [list(key) for key in local.answers(right).elements()]


def test_a_commit_that_is_missing_is_named(local) -> None:
    local.add("SELECT x FROM alpha")
    for step in range(6):
        local.feed(at_seconds((0, step)))
    local.service.close()
    log = local.folder / "state" / "log"
    names = sorted(path.name for path in log.iterdir() if path.suffix == ".json")
    (log / names[-3]).unlink()
    with pytest.raises(CorruptState, match=r"a commit in .*log is missing"):
        local.start()
    local.service = Service(Settings(local.folder.parent / "other"))


def test_a_registry_that_is_missing_beside_commits_is_named(local) -> None:
    local.add("SELECT x FROM alpha")
    local.feed(at_seconds((0, 1)))
    local.service.close()
    for path in local.folder.glob("registry.db*"):
        path.unlink()
    with pytest.raises(CorruptState, match=r"it is empty, and .* has commits up to batch 0"):
        local.start()
    (local.folder / "registry.db").write_bytes(b"torn" * 1000)
    with pytest.raises(CorruptState, match=r"registry\.db"):
        local.start()
    local.service = Service(Settings(local.folder.parent / "other"))
