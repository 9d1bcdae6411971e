"""Rows a second: over any time a tenant pushes its rate, its burst and one push; refused pushes say when to come again."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import Backlogged
from headgate.service.row_rates import BURST_S, RowRates


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@settings(max_examples=50)
@given(
    st.floats(1, 1000),
    st.lists(st.tuples(st.floats(0, 5), st.integers(1, 20_000)), min_size=1, max_size=40),
)
def test_a_tenant_never_has_more_than_its_rate_its_burst_and_one_push(rate, pushes) -> None:
    clock = Clock()
    rates = RowRates(lambda _: rate, clock)
    taken, largest, began = 0, 0, clock.now
    for pause, rows in pushes:
        clock.now += pause
        try:
            rates.take("ann", rows)
        except Backlogged as error:
            clock.now += error.retry_after_s  # whoever comes when it is told is not refused again
            rates.take("ann", rows)
        taken, largest = taken + rows, max(largest, rows)
        assert taken <= rate * (clock.now - began + BURST_S) + largest + 1e-6 * taken


def test_one_tenant_is_refused_and_another_is_not() -> None:
    clock, limit = Clock(), {"ann": 10.0, "bob": 10.0}
    rates = RowRates(limit.__getitem__, clock)
    rates.take("ann", 150)
    with pytest.raises(
        Backlogged, match=r"'ann' has pushed more than 10 rows a second .*rows_s.*in 6 s"
    ) as refused:
        rates.check("ann")
    assert refused.value.retry_after_s == 6.0
    rates.take("bob", 1)
    assert rates.rate("ann") == pytest.approx(15)
    assert rates.rate("bob") == pytest.approx(0.1)
    limit["ann"] = 1e6  # an admin lets it
    clock.now += 0.001
    rates.take("ann", 1)
    limit["ann"] = 10.0
    rates.take("ann", 100)
    rates.give_back("ann", 100)
    rates.check("ann")
    clock.now += 1000
    assert rates.rate("ann") < 1e-9


def test_those_who_pushed_long_ago_are_forgotten() -> None:
    rates = RowRates(lambda _: 1.0, Clock(), most=2)
    for name in ("ann", "bob", "cid"):
        rates.take(name, 100)
    rates.check("ann")
    for name in ("bob", "cid"):
        with pytest.raises(Backlogged):
            rates.check(name)


def test_pushes_at_the_same_time_are_counted_one_by_one() -> None:
    rates = RowRates(lambda _: 1.0, Clock())
    done = list[int]()

    def push() -> None:
        for _ in range(50):
            try:
                rates.take("ann", 1)
                done.append(1)
            except Backlogged:
                pass

    threads = [threading.Thread(target=push) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == BURST_S
