"""The report of `headgate bench observe`: each batch is compared with itself."""

from headgate_lab.bench.observe import OFF, ON, report


def test_the_goal_is_the_median_of_the_ratios_batch_by_batch() -> None:
    times = {"10 rows": {ON: [101.0, 50.5, 202.0], OFF: [100.0, 50.0, 200.0]}}
    told = report(times, where={}, quick=True)
    (goal,) = told.goals
    assert (round(goal.measured, 4), goal.ok, goal.goal) == (1.01, True, "<= 1.02x")
    (result,) = told.results
    assert (result.value, result.rival_value) == (101.0, 100.0)
    assert sorted(result.samples) == [f"{ON}, 10 rows", f"{OFF}, 10 rows"]


def test_a_query_that_is_slowed_down_misses_the_goal() -> None:
    told = report({"10 rows": {ON: [110.0], OFF: [100.0]}}, where={}, quick=True)
    assert not told.goals[0].ok
