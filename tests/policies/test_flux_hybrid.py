"""The hybrid of Flux's policies: memory while a bin is on disk, load otherwise."""

import pytest

from headgate.control import LoadView, fold
from headgate.policies import FluxHybrid, FluxLoad
from headgate.routing.table import Table
from headgate.testing import builders

PAIR = Table.uniform(6, 2)


def seen(table, **settings):
    settings = {"rows": [1] * len(table.bins), **settings}
    return fold(LoadView(), builders.report(0, table, settings.pop("rows"), **settings), table)


def test_the_hybrid_sees_to_memory_while_a_bin_is_on_disk_and_to_load_otherwise() -> None:
    rows = [1, 50, 1, 50, 1, 50]
    spilled = seen(PAIR, rows=rows, memory=[200, 1000], on_disk={0})
    plan = FluxHybrid.paper().propose(spilled, PAIR)
    assert plan is not None
    assert (plan.policy, plan.moves[0].source) == ("flux-hybrid", 0)
    resident = seen(PAIR, rows=rows, memory=[400, 1000], wall_ms=151.0)
    plan = FluxHybrid.paper().propose(resident, PAIR)
    assert plan is not None
    assert (plan.policy, plan.moves[0].source) == ("flux-hybrid", 1)


@pytest.mark.parametrize(("limit", "moves"), [(399, 0), (400, 1)], ids=["no room", "just room"])
def test_for_load_a_bin_moves_only_where_it_fits(limit, moves) -> None:
    view = seen(PAIR, rows=[1, 50, 1, 50, 1, 50], memory=[limit, 1000])
    plan = FluxHybrid(FluxLoad(rounds=1)).propose(view, PAIR)
    assert len(plan.moves if plan else ()) == moves


def spilled(table, sizes, memory):
    """What each channel would have on disk: its last bins, until the rest fits."""
    found = set()
    for channel in range(table.channels):
        mine = list(table.bins_of(channel))
        while memory[channel] and sum(sizes[b] for b in mine) > memory[channel]:
            found.add(mine.pop())
    return found
