"""Gates: the worked example, stragglers, empty batches, lazy and counted sources, misuse by name."""

import pytest

from headgate.errors import ConfigError
from headgate.flow import Batcher, CountedItems, Gate, Portion, Rows, leave


def open_gate(gate, rows, stamp=()):
    batcher = Batcher(gate)
    batcher.offer(stamp, Rows(rows))
    batcher.close(stamp)
    return batcher


def stamps(batcher):
    return [batch.stamp for batch in batcher.admit()]


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ({"in_flight": 0}, "in_flight=0 is below 1"),
        ({"batch": -3}, "batch=-3 is below 1"),
        ({"batch": 2.5}, "batch=2.5 is not a whole number"),
        ({"in_flight": True}, "in_flight=True is not a whole number"),
    ],
    ids=str,
)
def test_what_no_gate_can_be_is_named(what, told) -> None:
    with pytest.raises(ConfigError, match=told):
        Gate(**what)


def test_a_batch_is_released_once_the_one_n_before_it_is_complete() -> None:
    batcher = open_gate(Gate(in_flight=3, batch=1), "abcdefg")
    assert stamps(batcher) == [(0,), (1,), (2,)]
    batcher.done((0,))
    assert stamps(batcher) == [(3,)]
    assert batcher.in_flight(()) == 3


def test_a_straggler_gates_what_comes_n_behind_it_however_much_is_done() -> None:
    batcher = open_gate(Gate(in_flight=3, batch=1), "abcdefg")
    list(batcher.admit())
    batcher.done((1,))
    batcher.done((2,))
    assert stamps(batcher) == []
    assert batcher.in_flight(()) == 3
    batcher.done((0,))
    assert stamps(batcher) == [(3,), (4,), (5,)]


def test_the_input_may_run_dry() -> None:
    batcher = Batcher(Gate(in_flight=4, batch=10))
    batcher.offer((), Rows("ab"))
    assert stamps(batcher) == [(0,)]
    batcher.done((0,))
    assert not batcher.finished(())
    batcher.offer((), Rows("c"))
    batcher.close(())
    assert stamps(batcher) == [(1,)]
    batcher.done((1,))
    assert batcher.finished(())
    assert not batcher.progress.outstanding


@pytest.mark.parametrize("sources", [(), ([],), ([], [])], ids=["none", "an empty one", "two empty ones"])
def test_an_input_without_rows_is_finished_without_a_batch(sources) -> None:
    batcher = Batcher(Gate())
    batcher.offer((), *map(Rows, sources))
    batcher.close(())
    assert stamps(batcher) == []
    assert batcher.finished(())


def test_a_source_that_ends_with_a_full_batch_makes_no_empty_one() -> None:
    batcher = open_gate(Gate(in_flight=1, batch=2), "abcd")
    seen = []
    while not batcher.finished(()):
        for batch in list(batcher.admit()):
            seen.append(batch.items)
            batcher.done(batch.stamp)
    assert seen == [("a", "b"), ("c", "d")]


def test_a_lazy_expansion_is_drawn_no_further_than_the_batches_in_flight() -> None:
    drawn = []

    def expand(item):
        for number in range(10**9):
            drawn.append((item, number))
            yield item, number

    batcher = open_gate(Gate(in_flight=2, batch=3), (row for item in "ab" for row in expand(item)))
    list(batcher.admit())
    assert drawn == [("a", number) for number in range(6)]
    batcher.done((1,))
    list(batcher.admit())
    assert len(drawn) == 6
    batcher.done((0,))
    list(batcher.admit())
    assert len(drawn) == 12


def test_counted_items_spend_credit_by_rows_and_large_ones_are_split() -> None:
    batcher = Batcher(Gate(in_flight=9, batch=4))
    batcher.offer((), CountedItems([("a", 3), ("b", 9), ("none", 0)]), Rows("xy"))
    batcher.close(())
    got = [(batch.items, batch.rows) for batch in batcher.admit()]
    assert got == [
        ((Portion("a", 0, 3), Portion("b", 0, 1)), 4),
        ((Portion("b", 1, 5),), 4),
        ((Portion("b", 5, 9),), 4),
        (("x", "y"), 2),
    ]
    with pytest.raises(ConfigError, match="item 'a' has -1 rows"):
        CountedItems([("a", -1)]).take(1)


def test_each_outer_stamp_has_a_budget_of_its_own_unless_it_is_shared() -> None:
    for shared, first in ((False, [(0, 0), (0, 1), (1, 0), (1, 1)]), (True, [(0, 0), (0, 1)])):
        batcher = Batcher(Gate(in_flight=2, batch=1, shared=shared))
        for stamp in ((1,), (0,)):
            batcher.offer(stamp, Rows("abc"))
        assert stamps(batcher) == first
        batcher.done((0, 0))
        assert stamps(batcher) == [(0, 2)]


def test_a_shared_budget_passes_by_an_outer_stamp_that_waits_for_input() -> None:
    batcher = Batcher(Gate(in_flight=1, batch=1, shared=True))
    batcher.offer((0,))
    batcher.offer((1,), Rows("ab"))
    assert stamps(batcher) == [(1, 0)]
    batcher.done((1, 0))
    batcher.offer((0,), Rows("c"))
    assert stamps(batcher) == [(0, 0)]


def test_an_earlier_outer_stamp_that_waits_for_input_holds_nobody_up() -> None:
    batcher = Batcher(Gate(in_flight=1, batch=1))
    batcher.offer((0,))
    batcher.offer((1,), Rows("ab"))
    assert stamps(batcher) == [(1, 0)]
    batcher.done((1, 0))
    assert stamps(batcher) == [(1, 1)]
    assert not batcher.progress.passed((1, 0))  # in the product order (0, 0) stands before it
    assert batcher.complete((1, 0))


def test_the_worked_example_with_one_batch_of_one_row_in_two_nested_gates() -> None:
    """FC-12: section 4.1 of the paper."""
    neighbours = {"a11": ["a21", "a22"], "a12": ["a23"]}
    outer = Batcher(Gate(in_flight=1, batch=1))
    inner = Batcher(Gate(in_flight=1, batch=1), outer=outer)
    outer.offer((), Rows(neighbours))
    outer.close(())
    order = []
    while not outer.finished(()):
        for batch in outer.admit():
            order.append((batch.items, batch.stamp))
            inner.offer(batch.stamp, Rows((a, b) for a in batch.items for b in neighbours[a]))
            inner.close(batch.stamp)
            outer.done(batch.stamp)
        for batch in inner.admit():
            order.append((batch.items[0], batch.stamp))
            assert outer.in_flight(()) == inner.in_flight(leave(batch.stamp)) == 1
            inner.done(batch.stamp)  # whether it produced anything or not
    assert order == [
        (("a11",), (0,)),
        (("a11", "a21"), (0, 0)),
        (("a11", "a22"), (0, 1)),
        (("a12",), (1,)),
        (("a12", "a23"), (1, 0)),
    ]


def test_tuples_are_counted_where_the_driver_sees_nothing_else() -> None:
    batcher = open_gate(Gate(in_flight=1, batch=1), "ab")
    list(batcher.admit())
    batcher.update((0,), +3)
    batcher.done((0,))
    assert stamps(batcher) == []
    batcher.update((0,), -3)
    assert stamps(batcher) == [(1,)]


@pytest.mark.parametrize(
    ("misuse", "told"),
    [
        (lambda b: b.done((7,)), r"wave \(7,\) is not in flight"),
        (lambda b: [b.done((0,)), b.done((0,))], r"wave \(0,\) is not in flight: it was done before"),
        (lambda b: b.close((5,)), r"no open input at \(5,\)"),
        (lambda b: [b.close(()), b.close(())], r"close it once"),
        (lambda b: [b.close(()), b.offer((), Rows("x"))], r"the input at \(\) is closed"),
        (lambda b: [b.done((0,)), b.update((0,), +1)], r"\(0,\) is complete"),
        (lambda b: b.update((0,), -2), r"cannot remove 2 at \(0,\), where 1 are outstanding"),
        (lambda b: b.progress.passed((0, 0)), "stamps of different scopes"),
    ],
    ids=[
        "done before release",
        "done twice",
        "close of the unknown",
        "close twice",
        "offer after close",
        "work after completion",
        "more taken than there is",
        "a stamp of another scope",
    ],
)
def test_misuse_is_named(misuse, told) -> None:
    batcher = Batcher(Gate(in_flight=1, batch=1))
    batcher.offer((), Rows("abc"))
    list(batcher.admit())
    with pytest.raises(ConfigError, match=told):
        misuse(batcher)


def test_an_inner_gate_cannot_be_offered_a_stamp_that_is_complete_outside() -> None:
    outer = open_gate(Gate(in_flight=1, batch=1), "a")
    (batch,) = outer.admit()
    outer.done(batch.stamp)
    with pytest.raises(ConfigError, match="is complete and can get no more work"):
        Batcher(Gate(), outer=outer).offer(batch.stamp, Rows("x"))
