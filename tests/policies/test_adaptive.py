"""The default policy: memory first, lasting speeds, hot keys; a moment's noise moves nothing."""

import pytest
from tests.policies.proposals import planned

from headgate.control import LoadView, Loop, apply
from headgate.control.view import fold
from headgate.errors import ConfigError
from headgate.policies import Adaptive, Guard, Rebuild, get
from headgate.policies.adaptive import lasting_speeds
from headgate.routing.table import Table
from headgate.stage.settings import DEFAULT_POLICY
from headgate.testing import builders

TABLE = Table.uniform(60, 3)


def seen(costs, **how):
    """A view after one report for each row of costs."""
    view = LoadView(keep=2)
    for batch, each in enumerate(costs):
        view = fold(view, builders.report(batch, TABLE, [10] * 60, ms_per_row=each, **how), TABLE)
    return view


def speeds(costs):
    view = lasting_speeds(seen(costs), 3, unlike=1.25, lasting=2)
    return [round(view.channel_cost_ms[channel] / view.channel_cost_ms[0], 3) for channel in range(3)]


def test_it_is_the_default() -> None:
    assert get(DEFAULT_POLICY) == Adaptive()


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        pytest.param([(1, 1, 1)] * 3, [1, 1, 1], id="equal channels are equal"),
        pytest.param([(1, 1, 1), (1, 1, 3)], [1, 1, 1], id="slow for a batch is not slow"),
        pytest.param([(1, 1, 1), (1, 1, 3), (1, 1, 3)], [1, 1, 3], id="slow for two batches is slow"),
        pytest.param([(1, 1, 3), (1, 3, 1), (3, 1, 1)], [1, 1, 1], id="slow in turns is not slow"),
        pytest.param([(2, 2, 1)] * 3, [1, 1, 0.5], id="a fast channel is fast"),
        pytest.param([(1, 1, 1.24)] * 3, [1, 1, 1], id="a little slower is noise"),
        pytest.param([(1, 1, 1.26)] * 3, [1, 1, 1.26], id="more than a little is not"),
        pytest.param([(1, 1, 3)], [1, 1, 1], id="one report is not enough"),
    ],
)
def test_a_speed_counts_if_it_lasts(costs, expected) -> None:
    assert speeds(costs) == expected


def test_a_slow_channel_is_relieved_and_then_nothing_moves() -> None:
    loop = Loop(Adaptive(), Guard(), "act", Table.uniform(300, 3))
    changes = []
    for batch in range(30):
        costs = (1, 1, 3 if batch >= 5 else 1)
        changes.append(loop.step(builders.report(batch, loop.table, [10] * 300, ms_per_row=costs)).changed)
    held = [len(loop.table.bins_of(channel)) for channel in range(3)]
    assert max(held[0], held[1], 3 * held[2]) / min(held[0], held[1], 3 * held[2]) < 1.15
    assert not any(changes[:6])
    assert not any(changes[15:])


def test_while_something_is_on_disk_memory_decides() -> None:
    view = seen([(1, 1, 3)] * 3, memory=(1000, 4000, 4000), on_disk={0, 3})
    plan = planned(Adaptive(), view, TABLE)
    assert plan.policy == "adaptive"
    assert "memory" in plan.reason
    assert all(move.source == 0 for move in plan.moves)


def test_no_plan_fills_a_memory_beyond_its_limit() -> None:
    view = seen([(1, 1, 3)] * 3, memory=(2100, 2100, 2100))
    assert planned(Adaptive(), seen([(1, 1, 3)] * 3), TABLE).policy == "adaptive"
    plan = Adaptive().propose(view, TABLE)
    if plan is not None:
        after = apply(planned(Adaptive(), view, TABLE), TABLE, 4)
        assert min(view.excess_bytes(after)) >= 0


def test_it_is_fitted_to_an_operator_as_rebuild_is() -> None:
    policy = Adaptive().fitted("LQL", whole="it has no merge")
    assert policy.rebuild == Rebuild(speeds=True).fitted("LQL", whole="it has no merge")


@pytest.mark.parametrize("wrong", [{"unlike": 1.0}, {"lasting": 0}])
def test_misuse_is_named(wrong) -> None:
    with pytest.raises(ConfigError, match="adaptive"):
        Adaptive(**wrong)


def test_few_rows_that_are_uneven_by_chance_move_nothing() -> None:
    rows = [3, 4, 3, 3, 3, 3] * 10  # 60, 70 and 60 rows on the channels
    loop = Loop(Adaptive(), Guard(min_gain=0.0, cool_down_batches=0), "act", TABLE)
    eager = Loop(Rebuild(), Guard(min_gain=0.0, cool_down_batches=0), "act", TABLE)
    for batch in range(3):
        report = builders.report(batch, TABLE, rows)
        assert not loop.step(report).changed
    assert eager.step(builders.report(0, TABLE, rows)).changed
    many = builders.report(3, TABLE, [1000 * count for count in rows])
    assert loop.step(many).changed
