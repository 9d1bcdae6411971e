"""Fair shares of a batch, by laws."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.service.fair import fair_shares

NAMES = [f"t{n}" for n in range(6)]
waits = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 500), max_size=6)
weights = st.fixed_dictionaries({name: st.sampled_from([0.25, 0.5, 1.0, 3.0]) for name in NAMES})
costs = st.fixed_dictionaries({name: st.sampled_from([1.0, 2.5, 40.0]) for name in NAMES})


@given(waits, st.integers(1, 1500), weights, costs)
def test_nobody_gets_more_than_it_has_and_all_together_no_more_than_the_bound(
    waiting, bound, weight, cost
) -> None:
    given_rows = fair_shares(waiting, bound, weights=weight, cost=cost)
    assert list(given_rows) == list(waiting)
    assert all(0 <= given_rows[name] <= rows for name, rows in waiting.items())
    spent = sum(given_rows[name] * cost[name] for name in waiting)
    assert spent <= bound + 1e-6 or sum(given_rows.values()) == 1
    if any(waiting.values()):
        assert any(given_rows.values())


@given(waits, st.integers(1, 1500))
def test_nothing_is_left_over_while_somebody_waits(waiting, bound) -> None:
    assert sum(fair_shares(waiting, bound).values()) == min(bound, sum(waiting.values()))


@given(waits, st.integers(1, 1500), weights, costs)
def test_who_does_not_get_all_gets_as_much_for_its_weight_as_anybody(waiting, bound, weight, cost) -> None:
    given_rows = fair_shares(waiting, bound, weights=weight, cost=cost)
    level = {name: rows * cost[name] / weight[name] for name, rows in given_rows.items()}
    step = {name: cost[name] / weight[name] for name in waiting}
    for short in waiting:
        if given_rows[short] < waiting[short]:
            for other in waiting:
                assert level[other] - step[other] <= level[short] + step[short] + 1e-6


@given(waits, st.integers(1, 1500))
def test_a_tenant_that_wants_more_takes_nothing_from_who_wants_less(waiting, bound) -> None:
    """The order of the tenants decides about single rows only."""
    greedy = {**waiting, "t0": waiting.get("t0", 0) + 10_000}
    before, after = fair_shares(waiting, bound), fair_shares(greedy, bound)
    fair = bound // max(1, len(greedy))
    for name in waiting:
        if name != "t0":
            assert after[name] >= min(before[name], fair)
