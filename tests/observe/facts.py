"""Events of queries for tests: any, or a particular one."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from headgate.control.guard import Guard
from headgate.control.loop import Loop
from headgate.control.report import BatchReport
from headgate.errors import CheckpointError, StorageFull
from headgate.far_ahead import NEVER
from headgate.observe.events import Event, QueryEvent
from headgate.operators.event_time import COMPLETE, Clock
from headgate.policies import get
from headgate.routing.table import Table
from headgate.stage.facts import BatchFacts, StepTime
from headgate.streams.drive import Progress
from headgate.testing import builders, strategies

STEPS = ("prepare", "compute", "decide", "commit", "journal", "retire", "publish")


def facts_of(report: BatchReport, table: Table, **more: Any) -> BatchFacts:
    """What a batch did, with the decision of a policy that likes to move."""
    decision = Loop(get("flux-load"), Guard(), "act", table).step(report)
    steps = tuple(StepTime(name, 10.0 + n, 10.5 + n) for n, name in enumerate(STEPS))
    made = {"clock": Clock(), "rows": report.rows, "unused": {}, "steps": steps, "output_bytes": 100, **more}
    return BatchFacts(report=report, decision=decision, **made)


def batch_event(batch: int = 0, at: float = 1_000.0, query: str = "users", **more: Any) -> QueryEvent:
    """A batch of four bins on two channels, of which one has most of the rows."""
    table = builders.table([0, 0, 1, 1])
    report = builders.report(batch, table, {0: 700, 1: 100, 2: 100, 3: 100}, ms_per_row=1.0)
    progress = Progress(batch, report.rows, 5.0, 250.0, False, 7)
    settings = {"progress": progress, "stages": (facts_of(report, table),), "requests": 7, **more}
    return QueryEvent(event=Event.batch, query=query, at=at, **settings)


@st.composite
def events(draw: st.DrawFn) -> QueryEvent:
    """Any event of any query."""
    kind = draw(st.sampled_from(Event))
    table = draw(strategies.tables(max_channels=5, max_bins=8))
    report = draw(strategies.reports(table, draw(st.integers(0, 10**6))))
    clock = Clock(
        newest=(draw(st.sampled_from([NEVER, 10**15])),),
        watermark=draw(st.sampled_from([NEVER, COMPLETE, 10**15])),
        counts={"late": 3},
    )
    unused = draw(st.dictionaries(st.sampled_from(["late", "no event time", "a new one"]), st.integers(0, 9)))
    facts = replace(facts_of(report, table, clock=clock, unused=unused), stage=draw(st.integers(0, 40)))
    failed = kind is Event.failed
    error = draw(st.sampled_from([CheckpointError("x"), StorageFull("x"), ZeroDivisionError("x")]))
    return QueryEvent(
        event=kind,
        query=draw(st.one_of(st.just("users"), st.text(max_size=80))),
        at=draw(st.floats(0, 2e9)),
        progress=draw(st.one_of(st.none(), st.just(Progress(1, 2, 3.0, 4.0, True, 5)))),
        stages=(facts,) if kind is Event.batch else (),
        interval=draw(st.one_of(st.none(), st.floats(0.001, 100))),
        requests=draw(st.integers(0, 5)),
        retries=draw(st.integers(0, 5)),
        error=error if failed else None,
    )
