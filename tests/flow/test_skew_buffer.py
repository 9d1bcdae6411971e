"""The skew buffer: how long channels work, and how many rows they may defer."""

import math

from hypothesis import given
from hypothesis import strategies as st

from headgate.control import LoadView, fold
from headgate.flow.backlog import Backlog, BacklogEntry
from headgate.flow.skew_buffer import work_budgets
from headgate.routing.table import Table
from headgate.testing import builders
from headgate.testing.strategies import reports, tables


@given(
    st.data(),
    st.integers(1, 10**6),
    st.lists(st.tuples(st.integers(0, 23), st.integers(1, 10**5)), max_size=8),
)
def test_the_room_of_all_channels_together_is_what_the_buffer_has_left(data, buffer, waiting) -> None:
    table = data.draw(tables())
    view = fold(LoadView(), data.draw(reports(table)), table)
    backlog = Backlog(tuple(BacklogEntry("f", bin, 5, size) for bin, size in waiting))
    budgets = work_budgets(view, table, backlog, buffer)
    assert len(budgets) == table.channels
    assert (
        0 <= sum(budget.room_bytes for budget in budgets) <= max(0, buffer - sum(size for _, size in waiting))
    )


def test_before_the_first_report_nobody_lets_rows_wait() -> None:
    for budget in work_budgets(LoadView(), Table.uniform(8, 2), Backlog(), 1000):
        assert budget.room_bytes == 0
        assert math.isinf(budget.work_ms)


def test_a_backlog_raises_what_everyone_should_work_and_room_goes_where_it_is_needed() -> None:
    table = Table.uniform(8, 4)
    view = fold(LoadView(), builders.report(0, table, [10] * 8), table)
    calm = work_budgets(view, table, Backlog(), 1000)
    busy = work_budgets(view, table, Backlog((BacklogEntry("f", 1, 40, 100),)), 1000)
    assert calm[0].work_ms < busy[0].work_ms
    assert busy[1].room_bytes > 3 * busy[0].room_bytes
    assert busy[0].room_bytes > 0
