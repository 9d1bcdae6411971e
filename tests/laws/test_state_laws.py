"""Laws 2, 3 and 10 of the design where they are made true, in the layers of state and operators.

Any batches, any cuts of a batch, any sequence of tables, bins handed over as bytes, snapshots and lost memory at any moment:
the answer is that of one channel which is given all rows at once.
"""

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headgate import agg
from headgate.operators.aggregate import Aggregate
from headgate.operators.channel_run import ChannelRun
from headgate.operators.history import HistoryWindow
from headgate.routing.table import Pin, Table
from headgate.state.keys import KeySpec
from headgate.state.section import encode, extract, join_extracts
from headgate.state.table import BinTable
from headgate.testing import builders
from headgate.testing.arrow import VALUES, column, columns, printed
from headgate.testing.direct import InProcessDirect
from headgate.testing.engine import key_hashes
from headgate.testing.trial import ENGINE, Trial

FEW = settings(max_examples=settings.default.max_examples // 2)  # type: ignore[union-attr]  # each example is a run of many steps

BINS = 6
KEYS = [
    KeySpec(("k",), (pa.int32(),)),
    KeySpec(("k",), (pa.string(),)),
    KeySpec(("k", "l"), (pa.decimal128(38, 10), pa.binary())),
]
REST = [
    ("id", pa.int64()),
    ("x", pa.float64()),
    ("i", pa.int32()),
    ("s", pa.string()),
    ("d", pa.decimal128(7, 2)),
]
OPERATORS = [
    Aggregate(
        n=agg.count(), total=agg.sum("x"), whole=agg.sum("i"), low=agg.min("s"), high=agg.max("d"), mean=agg.mean("x"),
        exact=agg.mean("d"), var=agg.var("x"), head=agg.first("s"), tail=agg.last("s", ignore_nulls=True),
    ),
    HistoryWindow(3, ["mean", "std", "min", "max", "median"], of="x", keep=["id"]),
    Aggregate(n=agg.count(), whole=agg.sum("i"), low=agg.min("s"), high=agg.max("d"), exact=agg.mean("d")),
]  # fmt: skip
BY_OPERATOR = pytest.mark.parametrize("operator", OPERATORS, ids=["aggregate", "history", "in any order"])


def schema_of(key):
    return pa.schema([*zip(key.names, key.types, strict=True), *REST])


@st.composite
def streams(draw, key):
    """Rows of few keys, numbered."""
    n = draw(st.integers(1, 40))
    several = draw(st.integers(1, 5))
    pools = [draw(columns(kind, min_size=several, max_size=several)) for kind in key.types]
    which = pa.array(draw(st.lists(st.integers(0, several - 1), min_size=n, max_size=n)), pa.int64())
    values = {
        name: draw(st.lists(st.none() | VALUES[kind], min_size=n, max_size=n)) for name, kind in REST[2:]
    }
    values["x"] = draw(st.lists(st.none() | st.floats(-1e9, 1e9), min_size=n, max_size=n))
    rest = [pa.array(range(n), pa.int64()), *(column(values[name], kind) for name, kind in REST[1:])]
    return pa.RecordBatch.from_arrays([*(pool.take(which) for pool in pools), *rest], schema=schema_of(key))


pins = st.lists(st.integers(0, 10), max_size=2, unique=True)


@st.composite
def routings(draw, hot=(), splits=False):
    """Any table over the same bins: any number of channels, any assignment, hot keys with pins or in pieces."""
    assigned = draw(st.lists(st.integers(0, 3), min_size=BINS, max_size=BINS))
    pinned = []
    for h in hot:
        places = draw(st.lists(st.integers(0, 3), max_size=3 if splits else 1, unique=True))
        pinned += [(h, channel) for channel in places]
    assigned += [channel for _, channel in pinned]
    pins = tuple(Pin(h, BINS + i, "hot") for i, (h, _) in enumerate(pinned))
    return builders.table(assigned, channels=max(assigned) + 1 + draw(st.integers(0, 1)), pins=pins)


def last_by_key(tables, key):
    """What a reader who keeps the last row of each key sees, in the order of the keys."""
    out = {}
    for table in tables:
        for row in printed(table):
            out[repr(row[: len(key.names)])] = row
    return sorted(out.items())


def in_order(tables):
    """All rows, in the order of the source."""
    rows = [(i, row) for t in tables for i, row in zip(t.column("id").to_pylist(), printed(t), strict=True)]
    return sorted(rows, key=lambda row: row[0])


def answer(operator, key, tables):
    return in_order(tables) if isinstance(operator, HistoryWindow) else last_by_key(tables, key)


def plain(operator, key, rows):
    """One channel, one bin, one batch."""
    return answer(operator, key, [Trial(operator.bind(key, rows.schema)).batch(rows, Table.uniform(1, 1))])


@BY_OPERATOR
@given(data=st.data(), key=st.sampled_from(KEYS), distinct=st.sampled_from([2, 2**63]))
@FEW
def test_any_batches_under_any_tables_give_the_one_channel_answer(operator, data, key, distinct) -> None:
    rows = data.draw(streams(key))
    positions = st.lists(st.integers(0, rows.num_rows), max_size=3).map(sorted)
    channels = Trial(operator.bind(key, rows.schema), distinct_hashes=distinct)
    hashes = key_hashes(rows, key, distinct=distinct)
    chosen = sorted({int(hashes[i % len(hashes)]) for i in data.draw(pins)})
    splits = not operator.bind(key, rows.schema).whole
    out = []
    for start, end in itertools.pairwise([0, *data.draw(positions), rows.num_rows]):
        under = data.draw(routings(chosen, splits))
        snapshots = data.draw(st.sets(st.integers(0, BINS + 1)))
        out.append(
            channels.batch(
                rows.slice(start, end - start), under, chunks=data.draw(positions), snapshots=snapshots
            )
        )
        if data.draw(st.booleans()):
            channels.forget()
    assert answer(operator, key, out) == plain(operator, key, rows)
    if isinstance(operator, HistoryWindow):
        assert sum(t.num_rows for t in out) == rows.num_rows  # Law 3: none lost, none twice


@given(data=st.data(), key=st.sampled_from(KEYS))
@FEW
def test_rows_of_one_key_are_processed_in_their_order(data, key) -> None:
    """Law 3: `last` of the row's number is the number of the last row, and `first` that of the first, for every key."""
    rows = data.draw(streams(key))
    operator = Aggregate(head=agg.first("id"), tail=agg.last("id"), n=agg.count()).bind(key, rows.schema)
    out = Trial(operator).batch(rows, data.draw(routings()), chunks=[3, 7])
    found = {repr(r[:-3]): r[-3:] for r in printed(out)}
    wanted: dict[Any, Any] = {}
    for row in printed(rows.select(key.names)):
        wanted.setdefault(repr(row), []).append(len([i for seen in wanted.values() for i in seen]))
    assert found == {k: (ids[0], ids[-1], len(ids)) for k, ids in wanted.items()}


class MovingBins(RuleBasedStateMachine):
    """A stream under tables that change at will, with snapshots and deaths in between."""

    def __init__(self) -> None:
        super().__init__()
        self.key = KEYS[1]
        self.schema = pa.schema([("k", pa.string()), ("id", pa.int64()), ("x", pa.float64())])
        self.operators = [
            Aggregate(n=agg.count(), total=agg.sum("x"), text=agg.max("k"), tail=agg.last("x")),
            HistoryWindow(2, ["mean", "max"], of="x", keep=["id"]),
        ]
        self.rows, self.out = [], [[] for _ in self.operators]  # type: ignore[var-annotated]

    @initialize(assigned=st.lists(st.integers(0, 2), min_size=BINS, max_size=BINS))
    def start(self, assigned) -> None:
        self.table = builders.table(assigned)
        self.channels = [Trial(o.bind(self.key, self.schema)) for o in self.operators]

    @rule(
        rows=st.lists(
            st.tuples(st.none() | st.text("abc", max_size=2), st.none() | st.floats(-9, 9)),
            min_size=1,
            max_size=8,
        )
    )
    def batch(self, rows) -> None:
        ids = range(len(self.rows), len(self.rows) + len(rows))
        self.rows += [(k, i, x) for i, (k, x) in zip(ids, rows, strict=True)]
        for channels, out in zip(self.channels, self.out, strict=True):
            out.append(channels.batch(self._batch(self.rows[-len(rows) :]), self.table))

    @rule(b=st.integers(0, BINS - 1), channel=st.integers(0, 2))
    def move(self, b, channel) -> None:
        assigned = list(self.table.assignment)
        assigned[b] = channel
        self.table = builders.table(assigned, version=self.table.version + 1)

    @rule(assigned=st.lists(st.integers(0, 4), min_size=BINS, max_size=BINS))
    def rescale(self, assigned) -> None:
        self.table = builders.table(assigned, version=self.table.version + 1)

    @rule(b=st.integers(0, BINS - 1))
    def snapshot(self, b) -> None:
        for channels in self.channels:
            channels.snapshot(b)

    @rule()
    def die(self) -> None:
        for channels in self.channels:
            channels.forget()

    def _batch(self, rows):
        arrays = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    @invariant()
    def answers_are_those_of_one_channel(self) -> None:
        if self.rows:
            for operator, out in zip(self.operators, self.out, strict=True):
                assert answer(operator, self.key, out) == plain(operator, self.key, self._batch(self.rows))


MovingBins.TestCase.settings = settings(FEW, stateful_step_count=12)
test_moving_bins = MovingBins.TestCase


class TestMovingBinsDirect(MovingBins.TestCase):  # type: ignore[misc, valid-type]
    """The same, with rows that come as blobs of map tasks."""

    settings = settings(FEW, stateful_step_count=12)

    def setUp(self) -> None:
        self._before = ENGINE.set(InProcessDirect)

    def tearDown(self) -> None:
        ENGINE.reset(self._before)


def one_bin(operator, key, *batches):
    """Channels with one bin, after some batches."""
    channels = Trial(operator.bind(key, schema_of(key)))
    for rows in batches:
        if rows.num_rows:
            channels.batch(rows, Table.uniform(1, 1))
    return channels


def numbered(start, count, prefix):
    """Rows of `count` keys of their own."""
    names = [f"{prefix}{i}" for i in range(count)]
    rest = [pa.array(range(start, start + count), pa.int64()), pa.array([0.5] * count)]
    rest += [pa.array([1] * count, pa.int32()), pa.array(names), pa.array([1] * count, pa.decimal128(7, 2))]
    return pa.RecordBatch.from_arrays([pa.array(names), *rest], schema=schema_of(KEYS[1]))


@BY_OPERATOR
@pytest.mark.parametrize("untouched", [0, 1, 100, 5000])
def test_the_bytes_of_a_delta_depend_only_on_what_was_touched(operator, untouched) -> None:
    """Law 10: however many keys a bin holds, a batch writes the bytes of those that it touched."""
    key, hot = KEYS[1], numbered(0, 7, "hot")
    alone = one_bin(operator, key, hot, hot)
    crowded = one_bin(operator, key, numbered(100, untouched, "cold"), hot, hot)
    assert crowded.table(0).rows == untouched + 7
    assert crowded.sections[0][-1] == alone.sections[0][-1]


@BY_OPERATOR
@given(data=st.data())
@FEW
def test_the_bytes_of_a_delta_do_not_depend_on_where_the_rows_lie(operator, data) -> None:
    key = KEYS[1]
    rows, others = data.draw(streams(key)), data.draw(streams(key))
    mine = set(printed(rows.column("k")))
    foreign = others.filter(pa.array([k not in mine for k in printed(others.column("k"))]))
    alone, crowded = one_bin(operator, key, rows), one_bin(operator, key, foreign, rows)
    assert crowded.sections[0][-1] == alone.sections[0][-1]


@BY_OPERATOR
def test_a_table_that_lived_on_and_one_that_was_rebuilt_write_the_same(operator) -> None:
    channels = one_bin(operator, KEYS[1], numbered(0, 40, "a"), numbered(40, 90, "b"), numbered(130, 40, "a"))
    whole = []
    for table in (channels.table(0), channels.rebuilt(0)):
        piece = extract(table, table.live, whole=True)
        whole.append([part.tobytes() for part in encode(piece, table.layout)])
    assert whole[0] == whole[1]


@pytest.mark.parametrize("key", KEYS, ids=str)
@given(data=st.data())
@FEW
def test_law_2_the_merged_pieces_of_a_key_know_what_the_whole_knows(key, data) -> None:
    """Rows dealt in any way over pieces, as the rows of a split key are; `first` and `last` have an order and no part in it."""
    rows = data.draw(streams(key))
    everything = {
        n: a
        for n, a in OPERATORS[0].aggregates.items()  # type: ignore[attr-defined]
        if n not in ("head", "tail", "mean", "total", "var")
    }
    operator = Aggregate(**everything, std=agg.std("i")).bind(key, schema_of(key))
    ways = data.draw(st.integers(1, 4))
    dealt = np.array(data.draw(st.lists(st.integers(0, ways - 1), min_size=len(rows), max_size=len(rows))))

    def state(some):
        run = ChannelRun(operator, lambda _: BinTable.create(operator.layout), 1)
        hashes = key_hashes(some, key)
        run.feed(some, hashes, np.zeros(some.num_rows, np.int32))
        change = run.finish().get(0)
        return change and change.rows

    pieces = [state(rows.filter(pa.array(dealt == way))) for way in range(ways)]
    merged = operator.key_output(operator.merge(join_extracts([p for p in pieces if p is not None])))
    whole = operator.key_output(state(rows))
    by_key = [(name, "ascending") for name in key.names]
    merged, whole = (pa.Table.from_batches([t]).sort_by(by_key) for t in (merged, whole))
    assert printed(merged.drop(["std"])) == printed(whole.drop(["std"]))
    for a, b in zip(merged["std"].to_pylist(), whole["std"].to_pylist(), strict=True):
        assert (a is None) == (b is None)
        assert a is None or a == pytest.approx(b, rel=1e-9, abs=1e-6)
