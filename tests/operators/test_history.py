"""The history window against the plain answer: for every row, a statistic over the last k values of its key."""

import math
import statistics
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import ConfigError, MissingColumn, UnsupportedType
from headgate.operators.history import STATS, HistoryWindow
from headgate.routing.table import Table
from headgate.state.keys import KeySpec
from headgate.testing.trial import Trial

FEW = settings(
    max_examples=settings.default.max_examples // 3  # type: ignore[union-attr]
)  # each example is many, and each test is run for many types

ONE = Table.uniform(4, 1)
DOUBLE = pa.float64()
NAN, INF = float("nan"), float("inf")
KEY = KeySpec(("key",), (pa.int64(),))


def schema_of(kind):
    return pa.schema([("key", pa.int64()), ("id", pa.int64()), ("x", kind)])


def emitted(k, batches, kind=DOUBLE, stats=STATS):
    """The rows that come out, in the order in which they went in."""
    operator = HistoryWindow(k, stats, of="x", keep=["id"]).bind(KEY, schema_of(kind))
    channels, out, start = Trial(operator), [], 0
    for rows in batches:
        ids = range(start, start + len(rows))
        start += len(rows)
        arrays = [pa.array([key for key, _ in rows], pa.int64()), pa.array(ids, pa.int64())]
        arrays.append(pa.array([value for _, value in rows], kind))
        out += channels.batch(pa.RecordBatch.from_arrays(arrays, schema=schema_of(kind)), ONE).to_pylist()
    return sorted(out, key=lambda row: row["id"])


def nan_last(value):
    return (math.isnan(value), value)


def wanted(window):
    """Spark's answers over a window whose nulls take a place and are left out."""
    values = [v for v in window if v is not None]
    if not values:
        return dict.fromkeys(STATS)
    ordered, n = sorted(values, key=nan_last), len(values)
    odd = any(math.isnan(v) or math.isinf(v) for v in values)
    mean = sum(values) / n if odd else statistics.fmean(values)
    if n < 2:
        std = None
    else:
        std = NAN if odd else math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
    median = ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2
    return {"mean": mean, "std": std, "min": ordered[0], "max": ordered[-1], "median": median}


def assert_close(found, expected, scale) -> None:
    if expected is None or found is None:
        assert found is expected
    else:
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9 * scale, nan_ok=True)


def check(k, batches, kind=DOUBLE) -> None:
    rows = [row for batch in batches for row in batch]
    out = emitted(k, batches, kind)
    assert [row["id"] for row in out] == list(range(len(rows)))
    history: dict[Any, Any] = {}
    for (key, value), row in zip(rows, out, strict=True):
        window = history[key] = [*history.get(key, []), value][-k:]
        expected = wanted([None if v is None else float(v) for v in window])
        finite = [abs(v) for v in window if v is not None and math.isfinite(v)]
        assert row["key"] == key
        for stat in STATS:
            assert_close(row[stat], expected[stat], max(finite, default=0.0))


keys = st.none() | st.integers(0, 3)
numbers = st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0, 1.5])
strange = numbers | st.none() | st.sampled_from([NAN, INF, -INF])


def batches_of(values):
    rows = st.lists(st.tuples(keys, values), min_size=1, max_size=25)
    return st.lists(rows, min_size=1, max_size=4)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 100])
@given(batches=batches_of(numbers | st.none()))
@FEW
def test_every_statistic_of_every_row(k, batches) -> None:
    check(k, batches)


@pytest.mark.parametrize("k", [1, 3, 100])
@given(batches=batches_of(strange))
@FEW
def test_with_nan_and_infinities(k, batches) -> None:
    check(k, batches)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.float32()], ids=str)
def test_other_numbers_are_taken_as_doubles(kind) -> None:
    check(3, [[(1, 1), (1, 2), (2, None)], [(1, 5), (2, 7), (1, -8), (1, 0)]], kind)


@pytest.mark.parametrize("k", [1, 4, 7, 100])
def test_many_keys_and_long_histories_grow_the_table(k) -> None:
    rows = [((i * 7919) % 300, float(i % 101) - 50 + (i % 7) / 8) for i in range(4000)]
    check(k, [rows[:1500], rows[1500:1501], rows[1501:]])


def test_one_key_wraps_many_times() -> None:
    check(5, [[(1, float(i)) for i in range(start, start + 37)] for start in range(0, 300, 37)])


def test_all_rows_null() -> None:
    out = emitted(3, [[(1, None)] * 4])
    assert all(row[stat] is None for row in out for stat in STATS)


def test_a_null_pushes_the_oldest_value_out() -> None:
    out = emitted(2, [[(1, 5.0), (1, None), (1, None), (1, 3.0)]])
    assert [row["mean"] for row in out] == [5.0, 5.0, None, 3.0]


def test_a_nan_is_no_null() -> None:
    assert math.isnan(emitted(2, [[(1, NAN)]])[0]["mean"])


def test_only_the_statistics_asked_for_come_out() -> None:
    out = emitted(2, [[(1, 5.0)]], stats=("max", "mean"))
    assert list(out[0]) == ["key", "id", "max", "mean"]


def test_by_default_the_value_itself_is_kept() -> None:
    operator = HistoryWindow(2, "mean", of="x").bind(KEY, schema_of(pa.int32()))
    assert operator.output == pa.schema([("key", pa.int64()), ("x", pa.int32()), ("mean", pa.float64())])
    assert operator.ordered


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: HistoryWindow(0, "mean", of="x"), ConfigError, "at least one row, not k=0"),
        (lambda: HistoryWindow(2.0, "mean", of="x"), ConfigError, "k=2.0"),  # type: ignore[arg-type]
        (lambda: HistoryWindow(2, "mode", of="x"), ConfigError, "statistic 'mode' is not one of mean, std"),
        (lambda: HistoryWindow(2, [], of="x"), ConfigError, "is not one of"),
        (lambda: HistoryWindow(2, "mean", of="z").bind(KEY, schema_of(pa.int8())), MissingColumn, "reads column 'z'"),
        (lambda: HistoryWindow(2, "mean", of="x").bind(KEY, schema_of(pa.string())), UnsupportedType, "needs a number"),
        (lambda: HistoryWindow(2, "mean", of="x", keep=["key"]).bind(KEY, schema_of(pa.int8())), ConfigError, "'key' twice"),
    ],
)  # fmt: skip
def test_misuse_is_named_with_its_remedy(make, error, text) -> None:
    with pytest.raises(error, match=text):
        make()
