"""Arrow to lane and back gives the same value, for every type, null included."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import UnsupportedType
from headgate.state.lanes import Lane, bitmap, from_lane, lane_of, open_view, to_lane
from headgate.testing.arrow import VALUES, column, columns, kinds, printed

EACH_KIND = pytest.mark.parametrize("kind", list(VALUES), ids=str)


def there_and_back(array):
    back = from_lane(to_lane(array), array.type)
    back.validate(full=True)
    return back


@given(st.data(), kinds)
def test_there_and_back_gives_the_same_values(data, kind) -> None:
    array = data.draw(columns(kind))
    back = there_and_back(array)
    assert back.type == array.type
    assert printed(back) == printed(array)


@EACH_KIND
def test_an_empty_column(kind) -> None:
    assert len(to_lane(column([], kind))) == 0
    assert there_and_back(column([], kind)).to_pylist() == []


@EACH_KIND
def test_a_column_of_nulls(kind) -> None:
    nulls = pa.nulls(3, kind)
    assert there_and_back(nulls).to_pylist() == [None] * 3
    assert to_lane(nulls).valid.tolist() == [0, 0, 0]


@EACH_KIND
def test_a_column_in_several_chunks(kind) -> None:
    one, two = column([None], kind), column([], kind)
    chunked = pa.chunked_array([one, two, one], kind)
    assert from_lane(to_lane(chunked), kind).to_pylist() == [None, None]
    assert len(to_lane(pa.chunked_array([], kind))) == 0


def test_decimals_at_both_ends_of_their_range() -> None:
    values = [
        Decimal("9" * 38),
        Decimal("-" + "9" * 38),
        Decimal(0),
        Decimal(-1),
        Decimal(2**64),
        Decimal(-(2**64) - 1),
    ]
    array = pa.array(values, pa.decimal128(38, 0))
    assert there_and_back(array).to_pylist() == values
    pairs = to_lane(array).data.reshape(-1, 2)
    whole = [(int(high) << 64) | (int(low) & (2**64 - 1)) for low, high in pairs]
    assert whole == [int(v) for v in values]


def test_a_timestamp_keeps_its_zone() -> None:
    kind = pa.timestamp("us", tz="America/New_York")
    assert there_and_back(column([0, 1], kind)).type == kind


def test_valid_is_empty_when_nothing_is_null_even_in_a_slice_of_what_has_nulls() -> None:
    assert len(to_lane(pa.array([None, 1, 2]).slice(1)).valid) == 0
    assert to_lane(pa.array([1, None, 2]).slice(1)).valid.tolist() == [0, 1]


def test_null_integers_travel_as_zero() -> None:
    assert to_lane(pa.array([7, None], pa.int32())).data.tolist() == [7, 0]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int32()), pa.struct([("a", pa.int32())]), pa.uint64(), pa.large_string(), pa.time64("us"),
        pa.date64(), pa.decimal256(50, 2), pa.float16(), pa.null(),
    ],
    ids=str,
)  # fmt: skip
def test_other_types_are_refused_with_what_to_cast_to(kind) -> None:
    with pytest.raises(UnsupportedType, match=r"column 'x' has type .*cast it to"):
        lane_of(kind, "column 'x'")


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string(), pa.decimal128(9, 2)], ids=str)
def test_lanes_are_writable_views_so_that_kernels_compile_once(kind) -> None:
    lane = to_lane(column([None] * 3, kind))
    assert lane.data.flags.writeable
    assert lane.valid.flags.writeable


def test_an_opened_view_is_the_same_memory_and_keeps_it_alive() -> None:
    buffer = pa.py_buffer(np.arange(1000).tobytes())
    view = open_view(np.frombuffer(buffer, np.int64)[10:20])
    assert view.ctypes.data == buffer.address + 80
    del buffer
    assert view.flags.writeable
    assert view.tolist() == list(range(10, 20))


def test_a_bitmap_only_where_there_is_a_null() -> None:
    assert bitmap(np.ones(9, np.uint8)) is None
    assert bitmap(np.zeros(0, np.uint8)) is None
    found = bitmap(np.array([1, 0] * 5, np.uint8))
    assert found is not None
    assert found.to_pybytes() == bytes([0b01010101, 0b01])


def test_every_lane_has_a_type() -> None:
    assert {lane_of(kind) for kind in VALUES} == set(Lane)
