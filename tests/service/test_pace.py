"""How much one tenant may lengthen the batches of others: what is measured, and what follows from it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.service.lengthen import LEAST_S, Lengthen
from headgate.service.manifest import BatchManifest
from headgate.service.pace import LATELY_S, LEAST_BACKLOG, SELDOM, Line, Pace
from headgate.service.tenant_use import Fairness, TenantUse, number_of
from headgate.sql.purses import BURST_S, Purses, Use

ANN, BOB, MALLORY = (number_of(name) for name in ("ann", "bob", "mallory"))
INFINITE = float("inf")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class World:
    """A pace whose batches are made up."""

    def __init__(self, **parts) -> None:
        self.clock, self.batch = Clock(), 0
        self.pace = Pace(0.1, lambda: {number_of(name): part for name, part in parts.items()}, self.clock)

    def commit(
        self, *active, behind=(), owing=(), debt=0.001, seconds=0.3, slow=0.0, rows=1, size=100
    ) -> None:
        self.clock.now += seconds
        usage = {number_of(name): TenantUse(rows=1) for name in active}
        usage |= {number_of(name): TenantUse(rows=1, waiting_rows=9) for name in behind}
        manifest = BatchManifest(
            self.batch,
            "run",
            facts={"wall_ms": 1e3 * seconds, "slow_ms": 1e3 * slow, "sent_rows": rows, "sent_bytes": size},
            usage=usage,
            fairness={0: Fairness({number_of(name): (0.5, debt) for name in owing})},
        )
        self.batch += 1
        self.pace.committed(manifest)

    def units(self, *names, granting=()):
        return self.pace.most_units(names, lambda name: name in granting)


@given(st.floats(0.05, 2), st.floats(2e-9, 5e-8), st.integers(0, 1000))
def test_a_line_finds_what_a_batch_takes_and_what_its_bytes_add(base, per_unit, seed) -> None:
    line, rng = Line(), np.random.default_rng(seed)
    for units in rng.integers(0, 50_000_000, 60).tolist():
        line.add(units, base + per_unit * units)
    assert line.per_unit == pytest.approx(per_unit, rel=0.1)
    assert line.base == pytest.approx(base, abs=0.1 * (base + per_unit * 25e6))


def test_batches_without_rows_say_nothing_of_what_bytes_take() -> None:
    line = Line()
    before = line.per_unit
    for seconds in (0.2, 0.4) * 20:
        line.add(100, seconds)
    assert line.per_unit == pytest.approx(before, rel=0.01)
    assert 0.19 < line.base < 0.41
    line.add(100, 60.0)
    assert line.base < 0.41


def test_what_heavy_tenants_take_does_not_count_for_what_a_batch_takes() -> None:
    world = World()
    for _ in range(50):
        world.commit("ann", owing=["mallory"], seconds=0.5, slow=0.2)
    assert world.pace.lengthen()(ANN) == pytest.approx(0.03, rel=0.01)


def test_who_falls_behind_gets_nothing_until_it_has_caught_up_and_then_less() -> None:
    world = World()
    world.commit("ann", "mallory")
    before = world.units("ann", "mallory")
    assert before["mallory"] == before["ann"] < INFINITE
    world.commit("ann", behind=["mallory"])
    assert world.units("ann", "bob", "mallory") == {"ann": before["ann"], "bob": before["ann"], "mallory": 0}
    assert world.units("ann", "mallory")["ann"] == INFINITE  # nobody else is light
    assert world.units("ann", "mallory", granting=["mallory"])["mallory"] > 0  # others read its sources
    for _ in range(SELDOM):
        world.commit("ann", behind=["mallory"])
    world.commit("ann", owing=["mallory"])
    less = world.units("ann", "mallory")["mallory"]
    assert 0 < less < before["mallory"]
    world.commit("ann", behind=["mallory"])
    world.commit("ann", owing=["mallory"])
    assert less < world.units("ann", "mallory")["mallory"] < before["mallory"]
    assert world.pace.most_backlog("mallory") == INFINITE
    world.commit("ann", behind=["mallory"])
    assert LEAST_BACKLOG <= world.pace.most_backlog("mallory") < INFINITE == world.pace.most_backlog("ann")


def test_who_owes_more_than_its_part_gets_no_rows_until_it_has_paid() -> None:
    world = World()
    world.commit("ann", "mallory")
    before = world.units("ann", "mallory")["mallory"]
    world.commit("ann", owing=["mallory"], debt=0.2)
    assert world.units("ann", "bob", "mallory")["mallory"] == 0
    assert world.units("ann", "bob", "mallory", granting=["mallory"])["mallory"] > 0
    assert LEAST_BACKLOG <= world.pace.most_backlog("mallory") < INFINITE
    world.clock.now += 2.1  # seven batches of 0.3 s, with a part of 0.03 s each
    assert world.units("ann", "bob", "mallory")["mallory"] > 0  # no batch came, and it need not wait for one
    world.commit("ann", owing=["mallory"], debt=0.2)
    assert world.units("ann", "bob", "mallory")["mallory"] == 0
    world.commit("ann", owing=["mallory"], debt=0.02)
    assert world.units("ann", "bob", "mallory")["mallory"] == pytest.approx(before, rel=0.1)
    assert world.pace.most_backlog("mallory") == INFINITE
    world.commit("ann", owing=["mallory"], debt=0.2)
    world.clock.now += LATELY_S + 1
    assert world.units("mallory") == {"mallory": INFINITE}  # nobody waits for it


def test_who_is_alone_has_all_that_there_is() -> None:
    world = World()
    world.commit("ann", behind=["mallory"])
    assert world.units("mallory") == {"mallory": 0}
    world.clock.now += LATELY_S + 1
    assert world.units("mallory") == {"mallory": INFINITE}
    world.commit(behind=["mallory", "bob"])
    assert world.units("mallory", "bob") == {"mallory": INFINITE, "bob": INFINITE}  # all are heavy


def test_after_a_batch_of_heavy_tenants_alone_the_service_is_free_for_a_while() -> None:
    world = World(bob=2.0)
    world.commit("ann", seconds=0.3)
    assert world.pace.may_begin(["mallory"], cut=["mallory"])
    world.commit("mallory", owing=["mallory"], seconds=0.3)
    assert not world.pace.may_begin(["mallory"], cut=[])
    assert world.pace.holds()
    assert world.pace.may_begin(["mallory", "ann"], cut=[])
    world.clock.now = world.pace.held_until + 0.01
    assert world.pace.may_begin(["mallory"], cut=[])
    world.commit("ann")
    world.commit("bob", owing=["bob"])  # its admin lets it
    assert world.pace.may_begin(["bob"], cut=[])


def test_a_part_of_its_own_is_that_of_one_tenant() -> None:
    lengthen = Lengthen(0.5, 0.1, {BOB: 1.0})
    assert (lengthen(ANN), lengthen(BOB)) == (0.05, 0.5)
    assert Lengthen(0.01, 0.1)(ANN) == LEAST_S


def test_joins_have_what_they_may_lengthen_batches_by_and_then_their_parts() -> None:
    """Joins cannot wait: over any number of batches they take their parts and the limit, and no more."""
    lengthen, taken, batches = Lengthen(0.5, 0.1), 0.0, 200
    before = dict[int, Use]()
    for _ in range(batches):
        purses = Purses(
            20, 60, together=1.0, lengthen=lengthen, light=frozenset({ANN}), joins=2.0, before=before
        )
        purses.meet([ANN, MALLORY])
        left = purses.left(MALLORY)
        assert purses.attempt_s(MALLORY, left, waits=False) <= max(1.0, left)
        purses.pay(MALLORY, left)
        taken, before = taken + left, purses.after()
    assert 2.0 <= taken <= 2.0 + BURST_S + batches * 0.05 + 1e-6
    assert purses.left(MALLORY) == 0
    assert "join_seconds" in purses.why_none_is_left(MALLORY)
    assert "60 s of a batch" in Purses(20, 60, spent={MALLORY: 61.0}).why_none_is_left(MALLORY)
    alone = Purses(20, 60, together=1.0, lengthen=lengthen, joins=2.0, before=before)
    alone.meet([MALLORY])
    assert alone.left(MALLORY) == 60


def test_a_tenant_that_others_wait_for_has_its_part_and_one_burst() -> None:
    purses = Purses(20, 60, together=1.0, lengthen=Lengthen(0.5, 0.1), light=frozenset({ANN, BOB}))
    purses.meet([MALLORY])
    assert purses.left(MALLORY, waits=True) == pytest.approx(0.05 + BURST_S)
    purses.pay(MALLORY, 0.4)
    assert purses.slow == {MALLORY}
    second = Purses(
        20, 60, together=1.0, lengthen=Lengthen(0.5, 0.1), light=frozenset({ANN, BOB}), before=purses.after()
    )
    second.meet([MALLORY, ANN])
    assert second.left(MALLORY, waits=True) == 0
    assert second.left(ANN, waits=True) == pytest.approx(0.05 + BURST_S)
    assert second.attempt_s(ANN, 0.01) > second.attempt_s(MALLORY, 0.01)
    paid, last = 0, second
    while last.before.get(MALLORY, (0, 0))[1]:
        last = Purses(
            20,
            60,
            together=1.0,
            lengthen=Lengthen(0.5, 0.1),
            light=frozenset({ANN, BOB}),
            before=last.after(),
        )
        last.meet([ANN])
        paid += 1
    assert 4 <= paid <= 6  # 0.25 s in parts of 0.05 s
    alone = Purses(20, 60, together=1.0, lengthen=Lengthen(0.5, 0.1), light=frozenset({MALLORY}))
    alone.meet([MALLORY])
    assert alone.left(MALLORY, waits=True) == 60
