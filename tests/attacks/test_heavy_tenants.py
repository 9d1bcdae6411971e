"""A tenant whose queries take long, or that pushes very much, slows itself down. Its results come later, and are the same."""

import numpy as np
import pytest
from tests.service.local import PATIENT, Local
from tests.sql.world import KIND, rows_of

from headgate.errors import Backlogged
from headgate.service.push_source import PushSource
from headgate.service.queries import Query
from headgate.service.sources import rows_in_slots
from headgate.service.tenant_use import number_of
from headgate.sql.deferred import waits
from headgate.sql.limits import Limits

SLOW = [
    f"SELECT x + {'x + ' * k}0 AS y, city FROM theirs WHERE n > 0 AND city <> '{'z' * k}'"
    for k in range(1, 13)
]


class Heavy(Local):
    """A service with a tenant that has many templates over a source of its own."""

    def __init__(self, folder, limits) -> None:
        super().__init__(folder, servers=1, limits=limits)
        self.bob = self.service.authenticate(self.service.add_tenant("bob"))
        self.service.add_sources(self.bob, [{"name": "theirs", "columns": dict(KIND.columns), "delay_s": 5}])
        registered = self.service.register(self.bob, [(text, "") for text in SLOW])
        self.numbers = [query.id for query in registered if isinstance(query, Query)]
        assert len(self.numbers) == len(SLOW)
        (self.mine,) = self.add("SELECT x, city FROM alpha")

    def waiting(self):
        """The pieces of what waits."""
        last = self.service.batch_log.last
        assert last is not None
        return {place: some for place, some in last.pieces.items() if waits(place[2])}


def both(count):
    """Rows of a source of each tenant."""
    rows = rows_of(np.random.default_rng(5), count)
    source = rows.column("source").to_numpy()
    return rows.set_column(0, "source", [np.where(source == 1, 3, source).astype(np.int32)])


def test_what_waits_is_kept_once_however_many_queries_wait_for_it(tmp_path) -> None:
    local = Heavy(tmp_path / "a", PATIENT)
    local.service.set_limits("bob", {"tenant_seconds": 1e-9})
    local.feed(both(3_000))
    pieces = local.waiting()
    assert len(pieces) == len(SLOW)
    chunks = {(piece.file, piece.at) for some in pieces.values() for piece in some if piece.rows}
    assert len(chunks) == 1
    state = local.service.usage.state_bytes(number_of("bob"))
    (size,) = {piece.size for some in pieces.values() for piece in some if piece.rows}
    assert size <= state < 2 * size + 10_000
    before = {(piece.file, piece.at) for some in pieces.values() for piece in some if piece.rows}
    local.feed(both(10).slice(0, 0))
    assert before == {(p.file, p.at) for some in local.waiting().values() for p in some if p.rows}
    local.service.set_limits("bob", {"state_bytes": state // 2})
    local.feed(both(10))
    stopped = [local.service.get_query(local.bob, number).state for number in local.numbers]
    assert "failed" in stopped
    assert local.service.get_query(local.ann, local.mine).state == "active"
    local.service.close()


def test_who_takes_long_reads_the_same_in_the_end_and_nobody_waits_for_it(tmp_path, monkeypatch) -> None:
    plain = Heavy(tmp_path / "plain", PATIENT)
    slowed = Heavy(tmp_path / "slowed", Limits(batch_part=1e-9))
    monkeypatch.setattr("headgate.sql.purses.BURST_S", 0.0)
    monkeypatch.setattr("headgate.service.lengthen.LEAST_S", 1e-6)
    slowed.service.set_limits("ann", {"batch_part": 1e9})
    rows = both(400)
    for at in range(0, 400, 100):
        for local in (plain, slowed):
            local.feed(rows.slice(at, 100))
        assert slowed.answers(slowed.mine) == plain.answers(plain.mine)
    assert number_of("bob") in slowed.service.usage.waiting
    slowed.service.set_limits("bob", {"batch_part": 1e9})
    for _ in range(60):
        if slowed.service.usage.waiting:
            slowed.feed(rows.slice(0, 0))
    for number, other in zip(slowed.numbers, plain.numbers, strict=True):
        assert slowed.answers_of(slowed.bob, number) == plain.answers_of(plain.bob, other)
        assert slowed.answers_of(slowed.bob, number)
    assert slowed.answers(slowed.mine) == plain.answers(plain.mine)
    for local in (plain, slowed):
        local.service.close()


def test_rows_of_who_falls_behind_stay_in_the_log_and_others_come_at_once(tmp_path, monkeypatch) -> None:
    local = Heavy(tmp_path, Limits())
    service = local.service
    events = [{"time": 1.0 + k / 1e3, "x": 1.0, "n": k, "city": "oak"} for k in range(1_000)]
    service.push_log.append("bob", rows_in_slots(service.sources.get("theirs"), events))
    service.push_log.append("ann", rows_in_slots(service.sources.get("alpha"), events[:1]))
    service.pace._behind = {number_of("bob"): 1}
    source = PushSource(service.push_log, None, service.pace)
    assert source._most(service.push_log.waiting())["bob"] == 0
    taken, offset, _ = service.push_log.take(10_000, 10**9, None, source._most(service.push_log.waiting()))
    assert {one.part.tenant for one in taken} == {"ann"}
    service.push_log.committed(offset)
    assert service.push_log.backlog_of("bob")[0] == 1_000  # nothing is lost
    monkeypatch.setattr("headgate.service.pace.LEAST_BACKLOG", 1_000)
    monkeypatch.setattr(service.pace, "_units", lambda _: 1.0)
    service.pace._light = {number_of("ann"): service.pace._clock()}
    with pytest.raises(Backlogged, match="tenant_backlog_bytes"):
        service.check_push(local.bob, "theirs", 1)
    service.check_push(local.ann, "alpha", 10**6)
    service.pace._behind = {}
    service.check_push(local.bob, "theirs", 1)
    assert {one.part.tenant for one in service.push_log.take(10_000, 10**9)[0]} == {"bob"}
    service.close()
