"""Which bins producers hold back: pure planning."""

from headgate.control.view import LoadView
from headgate.flow.backlog import Backlog, BacklogEntry
from headgate.flow.skew_buffer import WorkBudget, held_back
from headgate.testing import builders

TABLE = builders.table([0, 0, 0, 1, 1, 1])
VIEW = LoadView(
    reports=1, bin_work={0: 5.0, 1: 3.0, 2: 2.0, 3: 1.0, 4: 1.0, 5: 1.0}, channel_cost_ms={0: 1.0, 1: 1.0}
)


def held(budgets, backlog=Backlog(), view=VIEW):  # noqa: B008
    return held_back(view, TABLE, backlog, budgets)


def test_the_largest_bins_that_fit_into_the_excess_are_held() -> None:
    room = 1000
    assert held([WorkBudget(10, room), WorkBudget(10, room)]) == frozenset()
    assert held([WorkBudget(6, room), WorkBudget(10, room)]) == {1}
    assert held([WorkBudget(4, room), WorkBudget(10, room)]) == {0}
    assert held([WorkBudget(3, room), WorkBudget(2, room)]) == {0, 2, 3}


def test_without_room_or_without_reports_nothing_is_held() -> None:
    assert held([WorkBudget(1, 0), WorkBudget(1, 0)]) == frozenset()
    assert held([WorkBudget(1, 9), WorkBudget(1, 9)], view=LoadView()) == frozenset()


def test_a_bin_whose_rows_wait_already_is_not_held_again() -> None:
    waits = Backlog((BacklogEntry("f", 0, 2, 16),))
    assert held([WorkBudget(4, 9), WorkBudget(10, 9)], waits) == {1, 2}
