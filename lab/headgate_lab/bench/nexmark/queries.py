"""Which of Nexmark's queries are run, what they read, and what their answers are. `ours.py` and
`native.py` have them for each system.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate_lab.bench.nexmark.events import AUCTIONS, BIDS, EPOCH, PERSONS

PROPORTIONS = {"person": PERSONS, "auction": AUCTIONS, "bid": BIDS}
DELAY = "4 seconds"
"""How late events may be, as in the standard suite."""
SIZE, HOP, GAP = "10 seconds", "2 seconds", "10 seconds"
LOCAL, CATEGORY = ("OR", "ID", "CA"), 10


@dataclass(frozen=True)
class Query:
    """A query, and how its answers are compared.

    `columns` are those of an answer; the first is an id, 0 in what comes from the closing events
    alone. Where `final` names columns, the last answer for each value of them counts; else every
    row that was emitted does.
    """

    title: str
    reads: tuple[str, ...]
    columns: tuple[str, ...]
    final: tuple[str, ...] = ()

    def rows(self, events: int) -> int:
        """Rows that it reads of so many events."""
        return events // EPOCH * sum(PROPORTIONS[stream] for stream in self.reads)

    @property
    def mode(self) -> str:
        """Spark's name for what it emits."""
        return "update" if self.final else "append"


QUERIES = {
    "q3": Query(
        "who sells in three states",
        ("person", "auction"),
        ("seller", "left_name", "left_city", "left_state", "right_id"),
    ),
    "q4": Query(
        "mean winning price by category", ("auction", "bid"), ("category", "mean"), final=("category",)
    ),
    "q5": Query("auctions with most bids, hopping windows", ("bid",), ("auction", "window_start", "n")),
    "q7": Query(
        "highest bid of each window", ("bid",), ("auction", "window_start", "bidder", "price", "time")
    ),
    "q8": Query("new sellers of each window", ("person", "auction"), ("id", "window_start", "left_name")),
    "q11": Query("bids of each session", ("bid",), ("bidder", "window_start", "window_end", "n")),
    "q12": Query("bids of each bidder by window", ("bid",), ("bidder", "window_start", "window_end", "n")),
    "q18": Query(
        "last bid of each bidder and auction",
        ("bid",),
        ("bidder", "auction", "price", "channel", "time"),
        final=("bidder", "auction"),
    ),
}
REFUSED = ("q4",)
"""Spark does not run these as streams; its answer is that of a batch over all events."""
