"""What `headgate bench direct` measures: works, their sizes and their goals."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headgate_lab.bench.aggregate import STORES
from headgate_lab.bench.nexmark.queries import QUERIES

DIRECT, STAGE = "direct", "foreachBatch"
PARTS = {
    "aggregate": "count, sum and max of each key",
    "small": "the same in batches of 1,000 rows",
    "strings": "the same with strings as keys",
    "kernel": "a z-score of each row, beside transformWithState",
    "history": "mean and std over the last 100 rows of each key, beside transformWithState",
    "operators": "dedup, windows, sessions and lists of the largest",
    "nexmark": "queries of the Nexmark suite",
    "first": "the first batch of a new process",
    "state": "a batch beside many keys that it does not touch",
}


@dataclass(frozen=True)
class Twin:
    """Batches of one file each, on which answers are compared: the order of rows is certain there, as
    Spark reads the files of a batch in any order. A slow native twin gets no others, and its rate is
    that of these.
    """

    rows: int
    batches: int
    steady: int


@dataclass(frozen=True)
class Work:
    """An operator or query over batches of so many rows. The last `steady` batches of each way count.

    `faster` is how many times native's rows a second are asked for, `time` the share of native's time
    that is allowed, and `rate` the rows a second. `files` are those of a batch. Work whose answers depend
    on the order of rows has a `twin`; `slow` says that native is measured only there.
    """

    name: str
    title: str
    operator: str
    rows: int
    batches: int
    steady: int
    faster: float | None = None
    time: float | None = None
    rate: float | None = None
    stores: tuple[str, ...] = ("hdfs",)
    files: int = 2
    strings: bool = False
    twin: Twin | None = None
    slow: bool = False

    @property
    def native(self) -> tuple[str, ...]:
        """The names of the native ways, one for each state store."""
        return tuple(map(native_way, self.stores))

    @property
    def unit(self) -> str:
        """Work that is judged by its time is shown so."""
        return "rows/s" if self.time is None else "ms"


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run. The JVM compiles for about the first forty batches, which don't count."""

    rows: int = 500_000
    keys: int = 1_000_000
    batches: int = 55
    steady: int = 15
    small_rows: int = 1_000
    small_batches: int = 100
    small_steady: int = 50
    kernel_rows: int = 2_000_000
    kernel_batches: int = 50
    kernel_steady: int = 10
    twin: Twin = Twin(50_000, 6, 3)
    operator_rows: int = 1_000_000
    operator_batches: int = 24
    operator_steady: int = 10
    events: int = 300_000
    event_batches: int = 24
    event_steady: int = 10
    first_rows: int = 2_000_000
    first_of: tuple[str, ...] = ("aggregate", "zscore")
    few_keys: int = 1_000_000
    many_keys: int = 50_000_000
    preload_rows: int = 1_000_000
    state_rows: int = 100_000
    state_batches: int = 30
    state_steady: int = 15
    state_turns: int = 3
    stores: tuple[str, ...] = tuple(STORES)


QUICK = Sizes(
    rows=20_000, keys=20_000, batches=2, steady=1,
    small_batches=4, small_steady=2,
    kernel_rows=20_000, kernel_batches=2, kernel_steady=1,
    twin=Twin(1_000, 2, 1),
    operator_rows=20_000, operator_batches=2, operator_steady=1,
    events=10_000, event_batches=1, event_steady=1,
    first_rows=20_000, first_of=("aggregate",),
    few_keys=2_000, many_keys=50_000, preload_rows=25_000,
    state_rows=10_000, state_batches=2, state_steady=1, state_turns=2,
    stores=("hdfs",),
)  # fmt: skip

_OPERATORS = {
    "dedup": ("dedup within the watermark", 3.0),
    "tumbling": ("tumbling windows", 3.0),
    "topk": ("the 3 largest of each key", 4.0),
    "sessions": ("session windows", 6.0),
    "hopping": ("hopping windows, two for a row", 6.0),
}


def native_way(store: str) -> str:
    """The name of native Spark on one of its state stores."""
    return f"native {STORES[store]}"


def works(part: str, sizes: Sizes) -> list[Work]:
    """The works of a part that are measured batch by batch; `first` and `state` are different."""
    s = sizes
    base = Work(
        "aggregate",
        "running aggregate",
        "aggregate",
        s.rows,
        s.batches,
        s.steady,
        faster=5.0,
        stores=s.stores,
    )
    match part:
        case "aggregate":
            return [base]
        case "strings":
            return [
                replace(
                    base, name="strings", title="running aggregate, string keys", strings=True, faster=4.0
                )
            ]
        case "small":
            title = f"running aggregate, {s.small_rows:,}-row batches"
            return [
                Work(
                    "small", title, "aggregate", s.small_rows, s.small_batches, s.small_steady,
                    time=0.4, stores=s.stores, files=1,
                )
            ]  # fmt: skip
        case "kernel":
            return [
                Work(
                    "kernel", "z-score kernel", "zscore", s.kernel_rows, s.kernel_batches, s.kernel_steady,
                    faster=250.0, rate=2.5e6, stores=("rocksdb",), twin=s.twin, slow=True,
                )
            ]  # fmt: skip
        case "history":
            return [
                Work(
                    "history", "history window, k = 100", "history", s.rows, s.batches, s.steady,
                    faster=150.0, stores=("rocksdb",), twin=s.twin, slow=True,
                )
            ]  # fmt: skip
        case "operators":
            return [
                Work(
                    name, title, name, s.operator_rows, s.operator_batches, s.operator_steady,
                    faster=goal, twin=s.twin if name == "dedup" else None,
                )
                for name, (title, goal) in _OPERATORS.items()
            ]  # fmt: skip
        case "nexmark":
            return [
                Work(
                    name, f"Nexmark {name}: {query.title}", name, query.rows(s.events),
                    s.event_batches, s.event_steady, faster=2.0,
                )
                for name, query in QUERIES.items()
            ]  # fmt: skip
    return []
