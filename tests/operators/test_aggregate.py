"""Each aggregate against an answer in plain Python: any type, any nulls, any batches."""

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import agg
from headgate.errors import ArithmeticOverflow, ConfigError, MissingColumn, UnsupportedType
from headgate.operators.aggregate import Aggregate
from headgate.routing.table import Table
from headgate.state.keys import KeySpec
from headgate.testing.arrow import VALUES, column, printed
from headgate.testing.trial import Trial

FEW = settings(
    max_examples=settings.default.max_examples // 3  # type: ignore[union-attr]
)  # each example is many, and each test is run for many types

ONE = Table.uniform(4, 1)
EXACT = Context(prec=200)
KEY = KeySpec(("key",), (pa.int64(),))
NAN, INF = float("nan"), float("inf")


def batch_of(keys, values, kind):
    return pa.RecordBatch.from_arrays(
        [column(keys, pa.int64()), column(values, kind)], schema=pa.schema([("key", pa.int64()), ("x", kind)])
    )


def bound(aggregates, kind):
    return Aggregate(**aggregates).bind(KEY, pa.schema([("key", pa.int64()), ("x", kind)]))


def answers(aggregates, batches, kind):
    """{key: {output: value}} after some batches of (key, value) rows."""
    channels, out = Trial(bound(aggregates, kind)), {}  # type: ignore[var-annotated]
    for rows in batches:
        emitted = channels.batch(batch_of([k for k, _ in rows], [v for _, v in rows], kind), ONE)
        assert sorted(map(str, emitted.column("key").to_pylist())) == sorted({str(k) for k, _ in rows})
        out |= {row["key"]: row for row in emitted.to_pylist()}
    return out


def answer(one, values, kind):
    """One aggregate over one key."""
    return answers({"y": one}, [[(0, v) for v in values]], kind)[0]["y"]


def groups(batches, kind):
    """{key: values in order}, as Arrow gives them back."""
    out: dict[Any, Any] = {}
    for rows in batches:
        for (key, _), value in zip(rows, column([v for _, v in rows], kind).to_pylist(), strict=True):
            out.setdefault(key, []).append(value)
    return out


def same(a, b):
    """Equal, where NaN equals NaN."""
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


def batches_of(kind, *, max_rows=12):
    values = st.none() | VALUES[kind]
    keys = st.none() | st.integers(0, 2)
    return st.lists(st.lists(st.tuples(keys, values), min_size=1, max_size=max_rows), min_size=1, max_size=3)


EACH_KIND = pytest.mark.parametrize("kind", list(VALUES), ids=str)
ORDERED = {
    "n": agg.count(), "filled": agg.count("x"), "low": agg.min("x"), "high": agg.max("x"),
    "head": agg.first("x"), "tail": agg.last("x"),
    "head_value": agg.first("x", ignore_nulls=True), "tail_value": agg.last("x", ignore_nulls=True),
}  # fmt: skip


@EACH_KIND
@given(data=st.data())
@FEW
def test_count_min_max_first_last_of_every_type(kind, data) -> None:
    batches = data.draw(batches_of(kind))
    found = answers(ORDERED, batches, kind)
    for key, values in groups(batches, kind).items():
        filled = [v for v in values if v is not None]
        rank = (lambda v: (math.isnan(v), v)) if pa.types.is_floating(kind) else (lambda v: v)
        if pa.types.is_string(kind):
            rank = str.encode
        wanted = {
            "key": key,
            "n": len(values),
            "filled": len(filled),
            "low": min(filled, key=rank, default=None),
            "high": max(filled, key=rank, default=None),
            "head": values[0],
            "tail": values[-1],
            "head_value": filled[0] if filled else None,
            "tail_value": filled[-1] if filled else None,
        }
        if pa.types.is_floating(kind) and all(math.isnan(v) for v in filled) and filled:
            wanted |= {"low": NAN, "high": NAN}
        assert found[key].keys() == wanted.keys()
        assert all(same(found[key][name], wanted[name]) for name in wanted), (found[key], wanted)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32()], ids=str)
@given(data=st.data())
@FEW
def test_numbers_of_whole_numbers(kind, data) -> None:
    batches = data.draw(batches_of(kind))
    wanted = {"total": agg.sum("x"), "mean": agg.mean("x"), "var": agg.var("x"), "std": agg.std("x")}
    assert_numbers(answers(wanted, batches, kind), groups(batches, kind), exact_total=True)


@given(
    batches=st.lists(
        st.lists(
            st.tuples(st.integers(0, 2), st.none() | st.floats(-1e6, 1e6) | st.sampled_from([-0.0, 1e-300])),
            min_size=1,
            max_size=12,
        ),
        min_size=1,
        max_size=3,
    )
)
def test_numbers_of_doubles(batches) -> None:
    wanted = {"total": agg.sum("x"), "mean": agg.mean("x"), "var": agg.var("x"), "std": agg.std("x")}
    assert_numbers(answers(wanted, batches, pa.float64()), groups(batches, pa.float64()), exact_total=False)


def assert_numbers(found, grouped, *, exact_total) -> None:
    for key, values in grouped.items():
        filled = [v for v in values if v is not None]
        row, n = found[key], len(filled)
        if not filled:
            assert row == {"key": key, "total": None, "mean": None, "var": None, "std": None}
            continue
        in_order = 0.0
        for value in filled:
            in_order += value
        assert row["total"] == (sum(filled) if exact_total else in_order)
        assert row["mean"] == in_order / n
        if n == 1:
            assert row["var"] is None
            assert row["std"] is None
            continue
        mean = sum(map(Fraction, filled)) / n
        var = float(sum((Fraction(v) - mean) ** 2 for v in filled) / (n - 1))
        scale = max(abs(v) for v in filled) ** 2
        assert row["var"] == pytest.approx(var, rel=1e-9, abs=1e-12 * scale)
        assert row["std"] == pytest.approx(math.sqrt(var), rel=1e-6, abs=1e-6 * math.sqrt(scale))


def test_float32_is_summed_as_double() -> None:
    assert answer(agg.sum("x"), [1e8, 1.0, 1.0], pa.float32()) == 1e8 + 2


@pytest.mark.parametrize(
    ("function", "values", "wanted"),
    [
        (agg.sum, [1.0, NAN], NAN),
        (agg.sum, [INF, 1.0], INF),
        (agg.sum, [INF, -INF], NAN),
        (agg.mean, [1.0, NAN, None], NAN),
        (agg.mean, [INF, 1.0], INF),
        (agg.var, [1.0, NAN], NAN),
        (agg.var, [INF, 1.0], NAN),
        (agg.std, [1e308, -1e308], NAN),
        (agg.min, [NAN, 1.0], 1.0),
        (agg.min, [NAN, INF], INF),
        (agg.max, [INF, NAN, 1.0], NAN),
        (agg.max, [-INF, None], -INF),
        (agg.min, [NAN, NAN], NAN),
        (agg.first, [NAN, 1.0], NAN),
    ],
)
def test_doubles_that_are_no_numbers(function, values, wanted) -> None:
    assert same(answer(function("x"), values, pa.float64()), wanted)


@pytest.mark.parametrize(
    ("values", "wanted"), [([-0.0], "-0.0"), ([0.0, -0.0], "0.0"), ([-0.0, 0.0], "-0.0")]
)
def test_zeros_are_equal_so_the_first_stays(values, wanted) -> None:
    assert repr(answer(agg.min("x"), values, pa.float64())) == wanted
    assert repr(answer(agg.max("x"), values, pa.float64())) == wanted


@pytest.mark.parametrize("precision,scale", [(7, 2), (18, 0), (38, 10), (38, 38), (10, 10)])
@given(data=st.data())
@FEW
def test_sums_and_means_of_decimals_are_exact(precision, scale, data) -> None:
    kind = pa.decimal128(precision, scale)
    limit = 10 ** min(precision, 34) - 1
    numbers = st.integers(-limit, limit) | st.integers(-20, 20)
    values = data.draw(st.lists(st.none() | numbers, min_size=1, max_size=8))
    decimals = [None if v is None else Decimal(v).scaleb(-scale, EXACT) for v in values]
    filled = [v for v in decimals if v is not None]
    total = answers({"sum": agg.sum("x"), "mean": agg.mean("x")}, [[(0, v) for v in decimals]], kind)[0]
    if not filled:
        assert total == {"key": 0, "sum": None, "mean": None}
        return
    exact = Decimal(0)
    for value in filled:
        exact = EXACT.add(exact, value)
    assert total["sum"] == exact
    mean = EXACT.divide(exact, Decimal(len(filled)))
    step = Decimal(1).scaleb(-min(38, scale + 4), EXACT)
    assert total["mean"] == mean.quantize(step, ROUND_HALF_UP, EXACT)


def test_the_types_of_decimals_widen_as_in_spark() -> None:
    def kind_of(one, kind):
        return bound({"y": one}, kind).output.field("y").type

    assert kind_of(agg.sum("x"), pa.decimal128(7, 2)) == pa.decimal128(17, 2)
    assert kind_of(agg.sum("x"), pa.decimal128(38, 10)) == pa.decimal128(38, 10)
    assert kind_of(agg.mean("x"), pa.decimal128(7, 2)) == pa.decimal128(11, 6)
    assert kind_of(agg.mean("x"), pa.decimal128(38, 36)) == pa.decimal128(38, 38)
    assert kind_of(agg.max("x"), pa.decimal128(7, 2)) == pa.decimal128(7, 2)
    assert kind_of(agg.sum("x"), pa.int8()) == pa.int64()
    assert kind_of(agg.sum("x"), pa.float32()) == pa.float64()
    assert kind_of(agg.count("x"), pa.float32()) == pa.int64()


@pytest.mark.parametrize(
    ("values", "wanted"),
    [((1, 0, 0), "0.003333"), ((2, 0, 0), "0.006667"), ((-2, 0, 0), "-0.006667"), ((1,) * 3, "0.010000")],
)
def test_the_mean_of_decimals_rounds_half_up(values, wanted) -> None:
    mean = answer(agg.mean("x"), [Decimal(v).scaleb(-2) for v in values], pa.decimal128(7, 2))
    assert str(mean) == wanted


@pytest.mark.parametrize(("total", "wanted"), [(1, "0.0001"), (-1, "-0.0001"), (3, "0.0002")])
def test_exactly_half_goes_away_from_zero(total, wanted) -> None:
    rows = [Decimal(total)] + [Decimal(0)] * 19_999  # total / 20,000 is 0.00005 and the like
    assert str(answer(agg.mean("x"), rows, pa.decimal128(10, 0))) == wanted


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_of_whole_numbers_that_leaves_its_range_is_an_error(sign) -> None:
    last = 2**63 - 1 if sign > 0 else -(2**63)
    assert answer(agg.sum("x"), [last - sign, sign], pa.int64()) == last
    with pytest.raises(ArithmeticOverflow, match=r"sum\(x\) as 'y' passed the range of a bigint; cast x"):
        answer(agg.sum("x"), [last, sign], pa.int64())


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("rows", [11, 20])
def test_a_sum_of_decimals_that_leaves_its_range_is_an_error(sign, rows) -> None:
    large = EXACT.multiply(Decimal("9" * 37), Decimal(sign))
    kind = pa.decimal128(38, 0)
    assert answer(agg.sum("x"), [large] * 10, kind) == EXACT.multiply(large, Decimal(10))
    with pytest.raises(ArithmeticOverflow, match=r"sum\(x\) as 'y' passed the range of decimal128\(38, 0\)"):
        answer(agg.sum("x"), [large] * rows, kind)


def test_a_sum_of_decimals_beyond_128_bits_is_an_error() -> None:
    with pytest.raises(ArithmeticOverflow, match="passed the range"):
        answer(agg.sum("x"), [Decimal("9" * 38)] * 2, pa.decimal128(38, 0))


@pytest.mark.parametrize("digits", [35, 36, 38])
def test_a_mean_of_decimals_that_leaves_its_range_is_an_error(digits) -> None:
    with pytest.raises(ArithmeticOverflow, match=r"mean\(x\) as 'y' passed the range of decimal128\(38, 4\)"):
        answer(agg.mean("x"), [Decimal("9" * digits)], pa.decimal128(38, 0))


def test_a_mean_of_decimals_just_within_its_range() -> None:
    assert answer(agg.mean("x"), [Decimal("9" * 34)] * 3, pa.decimal128(38, 0)) == Decimal("9" * 34)


@pytest.mark.parametrize("function", [agg.mean, agg.var, agg.std])
def test_whole_numbers_beyond_53_bits_are_taken_as_the_nearest_double(function) -> None:
    values = [2**53 + 1, 2**62 + 1, -(2**63)]
    assert answer(function("x"), values, pa.int64()) == answer(
        function("x"), [float(v) for v in values], pa.float64()
    )


def test_var_of_decimals() -> None:
    values = [Decimal("1.10"), Decimal("2.20"), None]
    assert answer(agg.var("x"), values, pa.decimal128(7, 2)) == pytest.approx(0.605)


@pytest.mark.parametrize("size", [1, 5000])
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
def test_texts_of_any_length(kind, size) -> None:
    values = [b"m" * size, b"z" * size, b"a" * size, b"", b"zz" * size, None, b"\xc3\xa9"]
    values = [v.decode() if v is not None and kind == pa.string() else v for v in values]
    found = answers(ORDERED, [[(0, v)] for v in values], kind)[0]
    filled = [v for v in values if v is not None]
    rank = str.encode if kind == pa.string() else bytes
    assert found["low"] == min(filled, key=rank)
    assert found["high"] == max(filled, key=rank)
    assert (found["head"], found["tail"]) == (values[0], values[-1])


def test_a_column_may_have_any_name() -> None:
    """Even that of a conversion: `mean` reads its column as doubles, and must not read another's lane."""
    names = ["x", "x:f64", "double:x", "plain:x", "sum", "", "a.b"]
    schema = pa.schema([("key", pa.int64()), *((n, pa.int64()) for n in names)])
    rows = pa.RecordBatch.from_arrays(
        [pa.array([1])] + [pa.array([i + 10]) for i in range(len(names))], schema=schema
    )
    wanted = {f"{f.__name__} of {n}": f(n) for n in names for f in (agg.sum, agg.mean, agg.count, agg.max)}
    for aggregates in (wanted, dict(reversed(wanted.items()))):
        out = Trial(Aggregate(**aggregates).bind(KEY, schema)).batch(rows, ONE).to_pylist()[0]
        for i, name in enumerate(names):
            assert out[f"sum of {name}"] == out[f"mean of {name}"] == out[f"max of {name}"] == i + 10
            assert out[f"count of {name}"] == 1


def test_count_of_rows_beside_a_column_named_none() -> None:
    schema = pa.schema([("key", pa.int64()), ("None", pa.int64())])
    rows = pa.RecordBatch.from_arrays([pa.array([1, 1]), pa.array([None, 1])], schema=schema)
    operator = Aggregate(n=agg.count(), m=agg.count("None")).bind(KEY, schema)
    assert Trial(operator).batch(rows, ONE).to_pylist() == [{"key": 1, "n": 2, "m": 1}]


def test_a_key_may_be_aggregated_too() -> None:
    schema = pa.schema([("key", pa.int64())])
    operator = Aggregate(top=agg.max("key")).bind(KEY, schema)
    rows = pa.RecordBatch.from_arrays([pa.array([3, None, 3])], schema=schema)
    assert sorted(printed(Trial(operator).batch(rows, ONE)), key=str) == [(3, 3), (None, None)]


def test_what_order_means_to_each() -> None:
    kind = pa.int64()
    assert not bound({"y": agg.sum("x")}, kind).ordered
    assert bound({"y": agg.sum("x"), "z": agg.first("x")}, kind).ordered
    assert bound({"y": agg.last("x", ignore_nulls=True)}, kind).ordered


def test_a_fingerprint_tells_operators_types_and_state_apart() -> None:
    prints = [
        bound({"y": one}, kind).fingerprint()
        for one in (agg.sum("x"), agg.max("x"), agg.first("x"), agg.first("x", ignore_nulls=True))
        for kind in (pa.int64(), pa.int32(), pa.float64())
    ]
    assert all(a != b for i, a in enumerate(prints) for b in prints[:i])


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Aggregate(), ConfigError, "nothing to compute"),
        (lambda: Aggregate(n="sum"), ConfigError, "n='sum' is not an aggregate"),  # type: ignore[arg-type]
        (lambda: bound({"key": agg.count()}, pa.int64()), ConfigError, "has the name of a key column"),
        (lambda: bound({"y": agg.sum("z")}, pa.int64()), MissingColumn, "reads column 'z', but the stream has 'key', 'x'"),
        (lambda: bound({"y": agg.sum("x")}, pa.string()), UnsupportedType, r"sum\(x\) needs a number, but column 'x' has type string"),
        (lambda: bound({"y": agg.mean("x")}, pa.bool_()), UnsupportedType, r"mean\(x\) needs a number"),
        (lambda: bound({"y": agg.var("x")}, pa.date32()), UnsupportedType, r"var\(x\) needs a number"),
        (lambda: bound({"y": agg.min("x")}, pa.list_(pa.int8())), UnsupportedType, "column 'x' has type list"),
    ],
)  # fmt: skip
def test_misuse_is_named_with_its_remedy(make, error, text) -> None:
    with pytest.raises(error, match=text):
        make()
