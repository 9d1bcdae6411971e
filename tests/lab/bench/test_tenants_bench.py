"""The bench of tenants: what the hostile one asks is accepted, and the figures say what was measured."""

from headgate.sql.prepare import Preparer
from headgate.sql.source_schema import SourceSchema
from headgate_lab.bench import tenants


def test_the_hostile_queries_are_accepted_and_have_many_templates() -> None:
    texts = tenants.hostile_texts(20)
    preparer = Preparer()
    found = {preparer.prepare(text, {"flood": SourceSchema(tenants.COLUMNS)}).template.key for text in texts}
    assert len(found) > 20


def test_the_goal_is_how_much_the_good_ones_wait_longer() -> None:
    waits = tenants.Waits(calm=[1.0] * 20, hostile=[1.1] * 20)
    seen = {"cpu_s": 3.0, "waiting_rows": 7.0, "stopped": 1.0, "hurt": 0.0, "accepted": 5.0, "refused": 2.0}
    report = tenants.report_of(waits, seen, {}, quick=True)
    assert [goal.ok for goal in report.goals] == [True, True]
    worse = tenants.report_of(tenants.Waits([1.0], [1.3]), {**seen, "hurt": 1.0}, {}, quick=True)
    assert [goal.ok for goal in worse.goals] == [False, False]
