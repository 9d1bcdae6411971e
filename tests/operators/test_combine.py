"""Rows that are combined before they are sent leave the state and the output that they would have left one by one."""

import math
import pickle
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import agg
from headgate.errors import ArithmeticOverflow
from headgate.operators.aggregate import Aggregate
from headgate.operators.channel_run import ChannelRun
from headgate.operators.combine_groups import grouped
from headgate.routing.column_hash import key_hashes, normalised
from headgate.state.keys import KeySpec
from headgate.state.lanes import NO_INTS
from headgate.state.section import encode, extract, join_extracts
from headgate.state.table import BinTable
from headgate.testing.arrow import VALUES, column, kinds, printed

FEW = settings(
    max_examples=settings.default.max_examples // 3  # type: ignore[union-attr]
)  # each test is run for many types
EACH_KIND = pytest.mark.parametrize("kind", list(VALUES), ids=str)
KEY_0 = KeySpec(("k0",), (pa.int64(),))
MOST, LEAST = 2**63 - 1, -(2**63)


class Channel:
    """All bins of one operator, in memory."""

    def __init__(self, operator, bins) -> None:
        self.operator, self.bins, self.batches = operator, bins, 0
        self.tables: dict[int, BinTable] = {}

    def batch(self, pieces, watermark=None):
        """(rows that a batch emits, what it changed, by bin): both in a form in which equal means identical."""
        layout = self.operator.layout
        run = ChannelRun(self.operator, self._open, self.bins, batch=self.batches)
        bounds = {b: table.due for b, table in self.tables.items()}
        for rows, hashes in pieces:
            run.feed(rows, hashes, (hashes % self.bins).astype(np.int32))
        if watermark is not None:
            run.close(run.due(bounds, watermark), watermark)
        changed = run.finish()
        self.batches += 1
        emitted = [row for rows in run.output for row in printed(rows)]
        state = {
            b: [
                [part.tobytes() for part in encode(change.rows, layout)],
                [part.tobytes() for part in encode(change.gone, layout.keys_only)],
            ]
            for b, change in changed.items()
        }
        return emitted, state, {b: table.due for b, table in self.tables.items()}

    def _open(self, b):
        return self.tables.setdefault(b, BinTable.create(self.operator.layout))


def cut(rows, places):
    """The ranges of a batch."""
    ends = sorted({0, rows.num_rows, *(p for p in places if p < rows.num_rows)})
    return [rows.slice(a, b - a) for a, b in pairwise(ends)]


def joined(pieces, places):
    """The same rows in other chunks."""
    if not pieces:
        return []
    rows, hashes = pa.concat_batches([r for r, _ in pieces]), np.concatenate([h for _, h in pieces])
    ends = sorted({0, len(hashes), *(p for p in places if p < len(hashes))})
    return [(rows.slice(a, b - a), hashes[a:b]) for a, b in pairwise(ends)]


class Pair:
    """An operator that is fed rows, beside the same operator that is fed what they are combined to."""

    def __init__(self, operator, *, distinct=2**62, bins=3) -> None:
        self.operator, self.combined, self.distinct = operator, operator.in_pieces(), distinct
        self.plain, self.partial = Channel(operator, bins), Channel(self.combined, bins)

    def hashes(self, rows):
        return key_hashes(rows, self.operator.key) % self.distinct

    def batch(self, ranges, chunks=(), watermark=None):
        """What both did with the ranges of a batch."""
        pieces = []
        for rows in ranges:
            made, hashes = self.combined.partial(rows, self.hashes(rows))
            assert made.schema == self.combined.partial_schema(rows.schema)
            assert hashes.tolist() == self.hashes(made).tolist()
            pieces.append((made, hashes))
        return (
            self.plain.batch([(rows, self.hashes(rows)) for rows in ranges], watermark),
            self.partial.batch(joined(pieces, chunks), watermark),
        )


@st.composite
def keyed(draw, key_kinds, value_kinds):
    """Batches of rows (k0, k1, ..., x0, x1, ...) with few keys, cut into ranges and chunks."""
    known = draw(st.lists(st.tuples(*(st.none() | VALUES[k] for k in key_kinds)), min_size=1, max_size=4))
    row = st.tuples(st.sampled_from(known), st.tuples(*(st.none() | VALUES[k] for k in value_kinds)))
    places = st.lists(st.integers(0, 14), max_size=3)
    batches = []
    for rows in draw(st.lists(st.lists(row, max_size=14), min_size=1, max_size=3)):
        keys = [normalised(column([k[i] for k, _ in rows], kind)) for i, kind in enumerate(key_kinds)]
        given_ = [column([v[i] for _, v in rows], kind) for i, kind in enumerate(value_kinds)]
        names = [f"k{i}" for i in range(len(keys))] + [f"x{i}" for i in range(len(given_))]
        whole = pa.RecordBatch.from_arrays([*keys, *given_], names)
        batches.append((cut(whole, draw(places)), draw(places)))
    return batches


def key_of(key_kinds):
    return KeySpec(tuple(f"k{i}" for i in range(len(key_kinds))), tuple(key_kinds))


def bound(operator, key_kinds, value_kinds):
    fields = [*zip(key_of(key_kinds).names, key_kinds, strict=True)]
    fields += [(f"x{i}", kind) for i, kind in enumerate(value_kinds)]
    return operator.bind(key_of(key_kinds), pa.schema(fields))


def exact(kind):
    """The aggregates of a column that have only one answer."""
    found = {"n": agg.count(), "filled": agg.count("x0"), "low": agg.min("x0"), "high": agg.max("x0")}
    if pa.types.is_decimal128(kind):
        found |= {"total": agg.sum("x0"), "mean": agg.mean("x0")}
    elif pa.types.is_signed_integer(kind):
        found |= {"total": agg.sum("x0")}
    return found


SEVERAL = st.sampled_from([1, 2, 2**62])
"""How many hashes there are: keys may collide."""


@EACH_KIND
@given(data=st.data())
@FEW
def test_aggregates_of_each_type_leave_identical_state(kind, data) -> None:
    if kind in (pa.int64(), pa.decimal128(38, 10), pa.decimal128(38, 38)):
        narrow = {pa.int64(): pa.int32()}.get(kind, pa.decimal128(7, 2))
        batches = data.draw(keyed([pa.int64()], [narrow]))
        batches = [([widened(r, kind) for r in ranges], chunks) for ranges, chunks in batches]
    else:
        batches = data.draw(keyed([pa.int64()], [kind]))
    pair = Pair(bound(Aggregate(**exact(kind)), [pa.int64()], [kind]), distinct=data.draw(SEVERAL))
    for ranges, chunks in batches:
        plain, partial = pair.batch(ranges, chunks)
        assert partial == plain


def widened(rows, kind):
    """Rows whose values are of a larger type, so that their sums fit."""
    narrow = rows.column("x0")
    if pa.types.is_decimal128(kind) and kind.scale == 38:
        wide = pa.array([None if v is None else v.scaleb(-30) for v in narrow.to_pylist()], kind)
    else:
        wide = narrow.cast(kind)
    return rows.set_column(1, "x0", wide)


@given(data=st.data())
def test_keys_of_every_type(data) -> None:
    chosen = data.draw(st.lists(kinds, min_size=1, max_size=3))
    batches = data.draw(keyed(chosen, [pa.string(), pa.int32()]))
    operator = Aggregate(n=agg.count(), low=agg.min("x0"), total=agg.sum("x1"), high=agg.max("x1"))
    pair = Pair(bound(operator, chosen, [pa.string(), pa.int32()]), distinct=data.draw(SEVERAL))
    for ranges, chunks in batches:
        plain, partial = pair.batch(ranges, chunks)
        assert partial == plain


@pytest.mark.parametrize("kind", [pa.int32(), pa.float32(), pa.float64(), pa.decimal128(7, 2)], ids=str)
@given(data=st.data())
@FEW
def test_numbers_of_floats_differ_by_rounding_only(kind, data) -> None:
    values = st.integers(-1000, 1000) if pa.types.is_integer(kind) else st.floats(-1e6, 1e6, width=32)
    if pa.types.is_decimal128(kind):
        values = VALUES[kind]
    rows = st.lists(st.tuples(st.integers(0, 2), st.none() | values), max_size=12)
    places = st.lists(st.integers(0, 12), max_size=3)
    names = {"total": agg.sum("x0"), "mean": agg.mean("x0"), "var": agg.var("x0"), "std": agg.std("x0")}
    pair = Pair(bound(Aggregate(**names), [pa.int64()], [kind]))
    for given_ in data.draw(st.lists(rows, min_size=1, max_size=3)):
        arrays = [column([k for k, _ in given_], pa.int64()), column([v for _, v in given_], kind)]
        ranges = cut(pa.RecordBatch.from_arrays(arrays, ["k0", "x0"]), data.draw(places))
        (plain, _, _), (partial, _, _) = pair.batch(ranges, data.draw(places))
        assert [row[0] for row in partial] == [row[0] for row in plain]
        scale = max((abs(float(v)) for _, v in given_ if v is not None), default=0.0)
        for mine, wanted in zip(partial, plain, strict=True):
            for a, b, power in zip(mine[1:], wanted[1:], (1, 1, 2, 1), strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    assert float(a) == pytest.approx(float(b), rel=1e-6, abs=1e-6 * max(scale, 1e3) ** power)


@pytest.mark.parametrize("values", [[math.nan, 1.0], [math.inf, -math.inf], [-0.0, 0.0], [0.0, -0.0]])
@pytest.mark.parametrize("places", [[], [1]])
def test_odd_doubles_stay_what_they_are(values, places) -> None:
    names = {"total": agg.sum("x0"), "low": agg.min("x0"), "high": agg.max("x0")}
    pair = Pair(bound(Aggregate(**names), [pa.int64()], [pa.float64()]))
    rows = pa.RecordBatch.from_pydict({"k0": pa.array([1] * len(values)), "x0": pa.array(values)})
    plain, partial = pair.batch(cut(rows, places))
    assert partial[0] == plain[0]


# -- overflow


def of_one_key(values, kind=None):
    kind = kind or pa.int64()
    return pa.RecordBatch.from_arrays([pa.array([7] * len(values)), pa.array(values, kind)], ["k0", "x0"])


def total(ranges, kind=None):
    """The sum of one key over ranges of rows: with rows, and with partial rows; None is an overflow."""
    kind = kind or pa.int64()
    operator = bound(Aggregate(total=agg.sum("x0")), [pa.int64()], [kind])
    out = []
    for side in (operator, operator.combined()):
        pieces = [of_one_key(values, kind) for values in ranges]
        if side is not operator:
            pieces = [side.partial(rows, key_hashes(rows, side.key))[0] for rows in pieces]
        try:
            emitted, _, _ = Channel(side, 1).batch([(r, key_hashes(r, side.key)) for r in pieces])
            out.append(emitted[0][1])
        except ArithmeticOverflow:
            out.append(None)
    return out


@given(
    ranges=st.lists(
        st.lists(
            st.sampled_from([MOST, LEAST, 1, -1, 2**62, -(2**62)]) | VALUES[pa.int64()],
            min_size=1,
            max_size=6,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_sum_overflows_only_if_the_rows_would(ranges) -> None:
    plain, combined = total(ranges)
    if plain is not None:
        assert combined == plain
    elif combined is not None:
        assert combined == sum(map(sum, ranges))
    if not LEAST <= sum(map(sum, ranges)) <= MOST:
        assert combined is None


def test_ranges_whose_sums_do_not_fit_may_cancel() -> None:
    assert total([[-10], [MOST, 5]]) == [MOST - 5, MOST - 5]
    assert total([[MOST], [1, 1, -2]]) == [None, MOST]
    assert total([[MOST, 1]]) == [None, None]


def test_decimals_that_do_not_fit_sixteen_bytes() -> None:
    kind, most = pa.decimal128(38, 0), 10**38 - 1
    assert total([[Decimal(-most)], [Decimal(most), Decimal(most), Decimal(-most)]], kind) == [0, 0]
    assert total([[Decimal(most)] * 5], kind) == [None, None]


# -- what is sent


def test_a_range_becomes_one_row_for_each_key_in_the_order_of_the_first_rows() -> None:
    operator = bound(Aggregate(n=agg.count(), total=agg.sum("x0")), [pa.string()], [pa.int64()]).combined()
    assert operator is not None
    rows = pa.RecordBatch.from_pydict({"k0": ["b", "a", None, "b"], "x0": [1, None, 3, 4]})
    made, hashes = operator.partial(rows, key_hashes(rows, operator.key))
    assert made.to_pylist() == [
        {"k0": "b", "__headgate_p0": 2, "__headgate_p1": 5, "__headgate_p2": 1},
        {"k0": "a", "__headgate_p0": 1, "__headgate_p1": 0, "__headgate_p2": 0},
        {"k0": None, "__headgate_p0": 1, "__headgate_p1": 3, "__headgate_p2": 1},
    ]
    assert hashes.tolist() == key_hashes(made, operator.key).tolist()
    assert operator.inputs == ("__headgate_p0", "__headgate_p1", "__headgate_p2")


@pytest.mark.parametrize("keep", [agg.first("x0"), agg.last("x0")], ids=str)
def test_what_depends_on_the_order_of_rows_is_not_combined(keep) -> None:
    assert bound(Aggregate(n=agg.count(), y=keep), [pa.int64()], [pa.int64()]).combined() is None


def test_a_combined_operator_is_the_same_operator() -> None:
    operator = bound(Aggregate(n=agg.count(), high=agg.max("x0")), [pa.string()], [pa.string()])
    combined = pickle.loads(pickle.dumps(operator.combined()))
    for name in ("key", "layout", "ordered", "output", "resources", "event_time", "whole", "answers_by_key"):
        assert getattr(combined, name) == getattr(operator, name)
    assert combined.fingerprint() == operator.fingerprint()


def test_pieces_of_a_split_key_are_merged_as_before() -> None:
    operator = bound(Aggregate(n=agg.count(), total=agg.sum("x0")), [pa.int64()], [pa.int64()])
    combined = operator.combined()
    sides = []
    for values in ([1, 2], [30]):
        side, rows = Channel(combined, 1), of_one_key(values)
        side.batch([combined.partial(rows, key_hashes(rows, KEY_0))])
        sides.append(extract(side.tables[0], side.tables[0].live, whole=True))
    assert combined.key_output(combined.merge(join_extracts(sides))).to_pylist() == [
        {"k0": 7, "n": 3, "total": 33}
    ]


@given(data=st.data())
def test_groups_are_the_keys_in_the_order_of_their_first_rows(data) -> None:
    chosen = data.draw(st.lists(kinds, min_size=1, max_size=2))
    for ranges, _ in data.draw(keyed(chosen, [])):
        for rows in ranges:
            parts = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows))))
            parts = data.draw(st.sampled_from([parts, NO_INTS])).astype(np.int64)
            hashes = key_hashes(rows, key_of(chosen)) % data.draw(SEVERAL)
            group, first = grouped(key_of(chosen), rows, hashes, parts)
            names = [str(row) for row in printed(rows)]
            names = [n + str(p) for n, p in zip(names, parts, strict=True)] if len(parts) else names
            order = list(dict.fromkeys(names))
            assert group.tolist() == [order.index(n) for n in names]
            assert first.tolist() == [names.index(n) for n in order]
