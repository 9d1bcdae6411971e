"""The live page of a query in this process: what its checkpoint says, and what only the process knows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.control.journal import Entry
from headgate.stage.facts import BatchFacts
from headgate.stage.stage import KeyedStage
from headgate.watch.card import card
from headgate.watch.model import BATCHES, stage_view
from headgate.watch.reader import Reader
from headgate.watch.record import Commit, StageRecord, Timing
from headgate.watch.server import LiveView, Page


class StepTimes:
    """How long the steps of the newest batches took, by stage."""

    def __init__(
        self, stages: Sequence[KeyedStage[Any]], planning: Callable[[], Mapping[int, float]]
    ) -> None:
        """`planning` is the time for planning each batch of the first stage, in ms."""
        self._stages, self._planning = stages, planning
        self._times: list[dict[int, Timing]] = [{} for _ in stages]
        self._watchers: list[Callable[[BatchFacts], None]] = []
        for number, stage in enumerate(stages):
            self._watchers.append(self._watcher(number))
            stage.watchers.append(self._watchers[-1])

    def _watcher(self, number: int) -> Callable[[BatchFacts], None]:
        def take(facts: BatchFacts) -> None:
            ms = {step.name: 1e3 * step.seconds for step in facts.steps}
            commit = sum(ms.get(name, 0.0) for name in ("decide", "commit", "journal", "retire"))
            # Readers may look at any time, so the dict that they have does not change.
            newest = {**self._times[number], facts.batch: Timing(0.0, commit, ms.get("publish", 0.0))}
            self._times[number] = dict(sorted(newest.items())[-BATCHES:])

        return take

    def of(self, stage: int) -> Mapping[int, Timing]:
        """The times of a stage, by batch."""
        times = self._times[stage]
        if stage:
            return times
        plan = self._planning()
        return {
            batch: Timing(plan.get(batch, 0.0), one.commit_ms, one.publish_ms) for batch, one in times.items()
        }

    def stop(self) -> None:
        """Watch no longer."""
        for stage, watcher in zip(self._stages, self._watchers, strict=True):
            if watcher in stage.watchers:
                stage.watchers.remove(watcher)


def open_page(
    stages: Sequence[KeyedStage[Any]],
    *,
    name: str,
    state: Callable[[], str],
    planning: Callable[[], Mapping[int, float]],
    host: str,
    port: int,
) -> Page:
    """Serve the page of a query until it is closed."""
    times = StepTimes(stages, planning)
    view = LiveView(Reader(name, [stage.store for stage in stages]), state=state, timings=times.of)
    try:
        return Page(view, host=host, port=port, closed=times.stop)
    except BaseException:
        times.stop()
        raise


def cards(stages: Sequence[KeyedStage[Any]], headline: str, page: Page | None) -> str:
    """The stages as a notebook shows them: live if the page is open, and otherwise as they are now."""
    if page is not None and page.is_open:
        return page._repr_html_()
    lines = [[headline]] + [[] for _ in stages[1:]]
    return "".join(card(_view(stage), *said) for stage, said in zip(stages, lines, strict=True))


def _view(stage: KeyedStage[Any]) -> dict[str, Any]:
    """What is in memory of the last batch."""
    status = stage.status()
    entries: tuple[Entry, ...] = ()
    commits: dict[int, Commit] = {}
    if status.report is not None and status.decision is not None:
        entries = (Entry(status.report, status.decision),)
        if status.clock is not None:
            commits = {status.report.batch: Commit(status.report.batch, status.clock)}
    return stage_view(StageRecord(status.operator, status.key, entries, commits), now=time.time())
