"""Values of any Arrow type as bytes: there and back, and equal for equal values."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.state.nested import can_encode, decode, encode
from headgate.state.payload import Payload

FIXED = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint16(), pa.uint64(), pa.float32(), pa.float64(),
    pa.date32(), pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.duration("us"), pa.time64("ns"),
    pa.decimal128(9, 2), pa.decimal128(38, 0), pa.decimal256(50, 3), pa.binary(3), pa.month_day_nano_interval(),
]  # fmt: skip


LEAVES = [*FIXED, pa.null(), pa.string(), pa.binary(), pa.large_string(), pa.large_binary()]


KINDS = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(lambda kind: pa.list_(kind, 2)),
        st.lists(inner, max_size=3).map(lambda kinds: pa.struct([(f"f{i}", k) for i, k in enumerate(kinds)])),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        inner.filter(lambda kind: kind != pa.null()).map(lambda kind: Payload(kind, f"my {kind}", "{}")),
    ),
    max_leaves=4,
)


def arrays(kind: pa.DataType, size: int) -> st.SearchStrategy[pa.Array]:
    """Arrays of any bits, with whatever bits under their nulls."""
    t = pa.types
    masks = st.lists(st.booleans(), min_size=size, max_size=size).map(lambda bits: np.array(bits, bool))
    if isinstance(kind, Payload):
        return arrays(kind.storage_type, size).map(lambda a: pa.ExtensionArray.from_storage(kind, a))
    if t.is_null(kind):
        return st.just(pa.nulls(size))
    if t.is_struct(kind):
        fields = st.tuples(*(arrays(f.type, size) for f in kind))
        return st.tuples(masks, fields).map(lambda x: _built(kind, size, x[0], [], list(x[1])))
    if t.is_fixed_size_list(kind):
        inner = arrays(kind.value_type, size * kind.list_size)
        return st.tuples(masks, inner).map(lambda x: _built(kind, size, x[0], [], [x[1]]))
    lengths = st.lists(st.integers(0, 3), min_size=size, max_size=size)
    if t.is_map(kind) or t.is_list(kind) or t.is_large_list(kind):
        entry = pa.struct([kind.key_field, kind.item_field]) if t.is_map(kind) else kind.value_type

        def within(ends: list[int]) -> st.SearchStrategy[pa.Array]:
            if not t.is_map(kind):
                return arrays(entry, ends[-1])
            keys = st.lists(st.text(max_size=3), min_size=ends[-1], max_size=ends[-1])
            pairs = st.tuples(keys.map(lambda k: pa.array(k, pa.string())), arrays(kind.item_type, ends[-1]))
            return pairs.map(lambda both: _built(entry, ends[-1], np.ones(ends[-1], bool), [], list(both)))

        places = lengths.map(lambda sizes: [0, *np.cumsum(sizes, dtype=int).tolist()])
        both = places.flatmap(lambda ends: st.tuples(st.just(ends), within(ends)))
        return st.tuples(masks, both).map(
            lambda x: _built(kind, size, x[0], [_places(kind, x[1][0])], [x[1][1]])
        )
    if size == 0:
        return st.just(pa.array([], kind))
    if t.is_string(kind) or t.is_binary(kind) or t.is_large_string(kind) or t.is_large_binary(kind):
        texts = st.lists(st.text(max_size=4).map(str.encode), min_size=size, max_size=size)

        def text(x: tuple[np.ndarray, list[bytes]]) -> pa.Array:
            ends = [0, *np.cumsum([len(one) for one in x[1]]).tolist()]
            return _built(kind, size, x[0], [_places(kind, ends), pa.py_buffer(b"".join(x[1]))], [])

        return st.tuples(masks, texts).map(text)
    width = max(1, kind.bit_width // 8)
    raw = st.binary(min_size=width * size, max_size=width * size)
    return st.tuples(masks, raw).map(lambda x: _built(kind, size, x[0], [pa.py_buffer(x[1])], []))


def _places(kind: pa.DataType, ends: list[int]) -> pa.Buffer:
    large = pa.types.is_large_list(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return pa.py_buffer(np.array(ends, np.int64 if large else np.int32))


def _built(kind: pa.DataType, size: int, valid: np.ndarray, rest: list, children: list) -> pa.Array:
    bits = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(kind, size, [bits, *rest], children=children)


def any_array() -> st.SearchStrategy[pa.Array]:
    """An array of any type, or a slice of one."""
    whole = st.tuples(KINDS, st.integers(0, 6)).flatmap(lambda x: arrays(*x))
    return st.tuples(whole, st.integers(0, 3), st.integers(0, 6)).map(lambda x: x[0].slice(x[1], x[2]))


def back(array: pa.Array) -> pa.Array:
    offsets, data = encode(array)
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    valid = storage.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
    return decode(offsets[:-1], data, valid, array.type)


def rows(array: pa.Array) -> list[bytes]:
    offsets, data = encode(array)
    return [data[a:b].tobytes() for a, b in pairwise(offsets)]


@given(any_array())
@example(pa.array([[1.0, float("nan"), None], None, [-0.0]]))
@example(pa.array([{"a": None}, None, {"a": [{"b": "x"}]}]))
@example(pa.array([[[("k", [1])]], [], None], pa.list_(pa.map_(pa.string(), pa.list_(pa.int8())))))
def test_what_is_read_is_what_was_written(array: pa.Array) -> None:
    again = back(array)
    again.validate(full=False)
    assert again.type == array.type
    assert rows(again) == rows(array), "bit for bit: also NaN, which differs from itself, and minus zero"
    if not any(name in str(array.type) for name in ("float", "double")):
        assert again.equals(array)


@given(any_array(), st.data())
def test_the_bytes_of_a_row_depend_on_its_value_alone(array: pa.Array, data: st.DataObject) -> None:
    encoded = rows(array)
    order = data.draw(st.permutations(range(len(array))))
    moved = array.take(pa.array(order, pa.int64()))
    assert rows(moved) == [encoded[i] for i in order]
    assert rows(array.slice(1)) == encoded[1:]


def test_equal_values_have_equal_bytes_whatever_lies_under_their_nulls() -> None:
    seen = set()
    for under in (7, 8):
        values = pa.array(np.array([1, under]), mask=np.array([False, True]))
        array = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), values)
        assert array.to_pylist() == [[1, None]]
        seen.add(rows(array)[0])
    assert len(seen) == 1


def test_floats_keep_their_bits() -> None:
    nan = np.array([0x7FF8DEADBEEF0000], np.uint64).view(np.float64)
    values = np.concatenate([nan, [-0.0, 0.0, np.inf]])
    array = pa.ListArray.from_arrays(pa.array([0, 4], pa.int32()), pa.array(values))
    assert back(array).values.to_numpy().tobytes() == values.tobytes()


def test_a_null_struct_hides_what_its_fields_hold() -> None:
    hidden = pa.StructArray.from_arrays([pa.array([1, 2])], names=["a"], mask=pa.array([False, True]))
    shown = pa.array([{"a": 1}, None], hidden.type)
    lists = [pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), s) for s in (hidden, shown)]
    assert rows(lists[0]) == rows(lists[1])
    assert back(lists[0]).to_pylist() == [[{"a": 1}, None]]


def test_a_null_list_hides_the_elements_under_it() -> None:
    bits = pa.py_buffer(bytes([0b101]))
    places = pa.py_buffer(np.array([0, 1, 3, 4], np.int32))
    array = pa.Array.from_buffers(pa.list_(pa.int64()), 3, [bits, places], children=[pa.array([1, 2, 3, 4])])
    outer = pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), array)
    assert back(array).to_pylist() == [[1], None, [4]]
    assert rows(outer) == rows(pa.array([[[1], None, [4]]]))


@pytest.mark.parametrize(
    "kind",
    [
        pa.dictionary(pa.int8(), pa.string()),
        pa.string_view(),
        pa.list_(pa.dense_union([pa.field("a", pa.int8())])),
    ],
    ids=str,
)
def test_types_that_no_stream_has_are_known_to_be_beyond_it(kind: pa.DataType) -> None:
    assert not can_encode(kind)
