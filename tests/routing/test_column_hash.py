"""Hashes of columns are those of the same values one by one, whatever the buffers look like."""

import struct

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import UnsupportedType
from headgate.routing.column_hash import hash_columns, key_hashes, normalised
from headgate.routing.key_hash import hash_key
from headgate.stage.routed_rows import hashes_of
from headgate.state.keys import KeySpec
from headgate.testing.arrow import VALUES, column, columns, decimals, kinds, printed

FEW = settings(
    max_examples=settings.default.max_examples // 2  # type: ignore[union-attr]
)  # each test is run for many types
EACH_KIND = pytest.mark.parametrize("kind", list(VALUES), ids=str)
NAN, INF = float("nan"), float("inf")


def raw(value, kind):
    """The bytes that Spark hashes; `value` is as in `headgate.testing.arrow`."""
    t = pa.types
    if t.is_boolean(kind) or t.is_int8(kind) or t.is_int16(kind) or t.is_int32(kind) or t.is_date32(kind):
        return struct.pack("<i", value)
    if t.is_floating(kind):
        plain = NAN if value != value else value or 0.0
        return struct.pack("<f" if t.is_float32(kind) else "<d", plain)
    if t.is_decimal128(kind):
        whole = _unscaled(value)
        if kind.precision <= 18:
            return struct.pack("<q", whole)
        size = (whole if whole >= 0 else ~whole).bit_length() // 8 + 1
        return whole.to_bytes(size, "big", signed=True)
    if t.is_string(kind):
        return value.encode()
    return value if t.is_binary(kind) else struct.pack("<q", value)


def _unscaled(value):
    sign, digits, _ = value.as_tuple()
    return int("".join(map(str, digits))) * (-1 if sign else 1)


def plain(array):
    """Values of an array in the form that `raw` takes."""
    t, kind = pa.types, array.type
    if t.is_date32(kind):
        return array.view(pa.int32()).to_pylist()
    if t.is_timestamp(kind) or t.is_duration(kind):
        return array.view(pa.int64()).to_pylist()
    return array.to_pylist()


def slowly(arrays):
    """The hash of each row, value by value."""
    out = []
    for row in zip(*(plain(a) for a in arrays), strict=True):
        h = 42
        for value, array in zip(row, arrays, strict=True):
            if value is not None:
                h = xxhash.xxh64_intdigest(raw(value, array.type), seed=h)
        out.append(h - 2**64 if h >= 2**63 else h)
    return out


@EACH_KIND
@given(data=st.data())
@FEW
def test_a_column_of_each_type(kind, data) -> None:
    array = data.draw(columns(kind))
    assert hash_columns([array], [kind]).tolist() == slowly([array])


@given(data=st.data())
def test_several_columns_are_chained(data) -> None:
    chosen = data.draw(st.lists(kinds, min_size=1, max_size=4))
    n = data.draw(st.integers(0, 12))
    arrays = [data.draw(columns(kind, min_size=n, max_size=n)) for kind in chosen]
    assert hash_columns(arrays, chosen).tolist() == slowly(arrays)


@given(values=st.lists(st.none() | st.binary(max_size=100) | st.binary(min_size=31, max_size=33)))
def test_byte_strings_of_every_length(values) -> None:
    found = hash_columns([pa.array(values, pa.binary())], [pa.binary()])
    assert found.tolist() == [hash_key(v) for v in values]


@given(text=st.lists(st.none() | st.text(max_size=60)))
def test_text_is_hashed_as_its_utf8_bytes(text) -> None:
    assert hash_columns([pa.array(text, pa.string())], [pa.string()]).tolist() == [hash_key(v) for v in text]


@pytest.mark.parametrize("precision", [2, 18, 19, 38])
@given(data=st.data())
@FEW
def test_decimals_are_hashed_as_a_long_up_to_eighteen_digits(precision, data) -> None:
    kind = pa.decimal128(precision, 1)
    array = pa.array(data.draw(st.lists(st.none() | decimals(precision, 1))), kind)
    assert hash_columns([array], [kind]).tolist() == slowly([array])


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
@given(data=st.data())
@FEW
def test_a_single_integer_is_hashed_as_a_bigint(kind, data) -> None:
    array = data.draw(columns(kind))
    rows, key = pa.RecordBatch.from_arrays([array], ["k"]), KeySpec(("k",), (kind,))
    assert key_hashes(rows, key).tolist() == hashes_of(rows, key).tolist()
    assert key_hashes(rows, key).tolist() == [hash_key(v) for v in array.to_pylist()]


def test_an_integer_beside_another_column_keeps_its_width() -> None:
    rows = pa.RecordBatch.from_pydict({"a": pa.array([5], pa.int32()), "b": pa.array([True])})
    key = KeySpec(("a", "b"), (pa.int32(), pa.bool_()))
    assert key_hashes(rows, key).tolist() == slowly(rows.columns)


@pytest.mark.parametrize(
    ("kind", "word", "whole"), [(pa.float32(), np.float32, np.uint32), (pa.float64(), np.float64, np.uint64)]
)
def test_all_zeros_are_one_and_all_nans_are_one(kind, word, whole) -> None:
    odd = np.array([NAN, -NAN, 0.0, -0.0, 1.5, -INF], word)
    odd.view(whole)[0] |= whole(1)  # another NaN
    array = pa.array(odd, kind, from_pandas=False)
    hashes = hash_columns([array], [kind])
    assert hashes[0] == hashes[1]
    assert hashes[2] == hashes[3]
    same = normalised(array)
    assert same.type == kind
    bits = same.to_numpy().view(whole).tolist()
    assert bits == np.array([NAN, NAN, 0.0, 0.0, 1.5, -INF], word).view(whole).tolist()
    assert hash_columns([same], [kind]).tolist() == hashes.tolist()


@EACH_KIND
@given(data=st.data())
@FEW
def test_normalised_columns_have_the_same_values(kind, data) -> None:
    array = data.draw(columns(kind))
    wanted = array.to_pylist()
    if pa.types.is_floating(kind):
        wanted = [v if v is None else v + 0.0 for v in wanted]
    found = normalised(array)
    assert found.type == kind
    assert printed(found) == printed(column(wanted, kind) if pa.types.is_floating(kind) else array)


def test_a_column_is_taken_as_the_type_that_is_named() -> None:
    given_ = pa.array([7, None], pa.int32())
    assert hash_columns([given_], [pa.int64()]).tolist() == [hash_key(7), 42]


def test_a_type_that_cannot_be_a_key_is_refused() -> None:
    with pytest.raises(UnsupportedType, match="cannot be a key"):
        hash_columns([pa.array([[1]])], [pa.list_(pa.int64())])
