"""Many histories: run them, count the faults, and keep the seeds of those that fail.

`run` may be called in a process in which a module of the product was changed on purpose: then some of
its histories should fail.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import islice, pairwise
from multiprocessing import get_context
from typing import Any

from headgate.errors import HeadgateError
from headgate_lab.chaos.children import end_with_parent
from headgate_lab.chaos.garbage import rarely_collected
from headgate_lab.chaos.history import SHARED, history
from headgate_lab.chaos.play import play


class LostProcess(HeadgateError):
    """A process that played histories has died."""


KEPT = 20
"""So many failures are described."""
PIECE = 4 * SHARED
"""Histories that a worker takes at a time."""


@dataclass
class Report:
    """What came of many histories."""

    histories: int = 0
    failed: int = 0
    seconds: float = 0.0
    struck: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    """(seed, what was wrong) of the first that failed."""

    def add(self, other: Report) -> None:
        """Take in the histories of another report."""
        self.histories += other.histories
        self.failed += other.failed
        self.struck += other.struck
        self.failures = sorted([*self.failures, *other.failures])[:KEPT]

    def as_json(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        return {
            "histories": self.histories,
            "failed": self.failed,
            "seconds": round(self.seconds, 3),
            "histories_per_second": round(self.histories / self.seconds, 1) if self.seconds else 0,
            "faults": dict(sorted(self.struck.items())),
            "failures": [{"seed": seed, "problem": problem} for seed, problem in self.failures],
        }


def run(histories: int, first: int = 0, *, stop_at: int = 0) -> Report:
    """Play histories in this process, seed after seed; with `stop_at`, until so many have failed."""
    report, started = Report(), time.perf_counter()
    with rarely_collected() as collect:
        for seed in range(first, first + histories):
            outcome = play(history(seed))
            collect()
            report.histories += 1
            report.struck += outcome.struck
            if outcome.failed:
                report.failed += 1
                report.failures = [*report.failures, (seed, outcome.problems[0])][:KEPT]
                if stop_at and report.failed >= stop_at:
                    break
    report.seconds = time.perf_counter() - started
    return report


def run_all(histories: int, first: int, jobs: int, progress: Callable[[Report], None]) -> Report:
    """Play histories in several processes; `progress` is told how far they are."""
    report, started = Report(), time.perf_counter()
    end = first + histories
    cuts = [first, *range((first // PIECE + 1) * PIECE, end, PIECE), end]
    pieces = iter([(start, stop - start) for start, stop in pairwise(cuts) if stop > start])
    if jobs == 1:
        for start, number in pieces:
            report.add(run(number, start))
            report.seconds = time.perf_counter() - started
            progress(report)
        return report
    running: dict[Future[Report], int] = {}  # pieces, and their first seeds
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=end_with_parent)
    try:
        running = {pool.submit(run, number, start): start for start, number in islice(pieces, 2 * jobs)}
        while running:
            for piece in wait(running, return_when=FIRST_COMPLETED).done:
                report.add(piece.result())
                del running[piece]
                more = next(pieces, None)
                if more is not None:
                    running[pool.submit(run, more[1], more[0])] = more[0]
            report.seconds = time.perf_counter() - started
            progress(report)
    except BrokenProcessPool as error:
        raise LostProcess(
            f"a process that played histories has died, perhaps for lack of memory, after {report.histories:,} histories "
            f"({report.failed} failed). Free some memory or use fewer --jobs, and go on with "
            f"--first {min(running.values(), default=first)}"
        ) from error
    finally:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(cancel_futures=True)
    return report
