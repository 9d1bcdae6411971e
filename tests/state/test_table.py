"""The table of one bin, against a dict; with growth, collisions, null keys and a heap whose strings come and go."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.state.keys import KeyColumn
from headgate.state.layout import Kind, StateColumn, StateLayout, head
from headgate.state.section import Extract, apply, extract
from headgate.state.table import BinTable

FIXED = StateLayout(True, (StateColumn("n", Kind.I64),))


TEXT = StateLayout(False, (StateColumn("n", Kind.I64),))


BYTES_BY_NUMBER = StateLayout(True, (StateColumn("s", Kind.BYTES),))


BYTES_BY_TEXT = StateLayout(False, (StateColumn("s", Kind.BYTES),))


def fixed_keys(values, *, distinct=2**40):
    """Numbers (None is null) as keys, whose hashes take `distinct` values."""
    data = np.array([0 if v is None else v for v in values], np.int64)
    hashes = np.array([-9 if v is None else v % distinct for v in values], np.int64)
    valid = np.array([v is not None for v in values], np.uint8)
    return KeyColumn.fixed(data, hashes=hashes, valid=valid if None in values else np.zeros(0, np.uint8))


def text_keys(values, *, distinct=2**40):
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)
    hashes = np.array([sum(v) % distinct for v in values], np.int64)
    return KeyColumn(
        hashes, np.frombuffer(bytearray(b"".join(values)), np.uint8), np.zeros(0, np.uint8), offsets
    )


def probe(table, keys):
    return table.probe(keys, np.arange(len(keys))).tolist()


def strings(table, name="s"):
    off, length = table.arrays[f"{name}.off"], table.arrays[f"{name}.len"]
    return [table.heap[off[i] : off[i] + length[i]].tobytes() for i in range(table.rows)]


def put(table, keys, values) -> None:
    """Give each key a string."""
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)
    data = np.frombuffer(bytearray(b"".join(values)), np.uint8)
    apply(table, Extract(keys, {"s": (offsets, data)}))


def rings(table, rows, *, whole):
    offsets, values = extract(table, rows, whole=whole).columns["r"]
    return [values[a:b].tolist() for a, b in pairwise(offsets)]


def live_heap(table):
    """Bytes of the heap that something refers to, padded as they are kept."""
    parts = [(table.arrays[size][: table.rows] * unit + 7) & ~7 for _, size, unit in table.layout.heap_refs]
    return int(sum(p.sum() for p in parts))


class Oracle:
    """Keys in the order of their arrival, and those that a batch touched in the order in which it touched them."""

    def __init__(self) -> None:
        self.rows: dict[Any, int] = {}
        self.touched: dict[int, None] = {}

    def batch(self, keys):
        self.touched = {}
        slots = [self.rows.setdefault(key, len(self.rows)) for key in keys]
        self.touched = dict.fromkeys(slots)
        return slots


@given(
    st.lists(st.lists(st.none() | st.integers(-30, 30) | st.integers(-(2**63), 2**63 - 1), max_size=60)),
    st.sampled_from([1, 3, 2**40]),
)
def test_numbers_are_found_as_a_dict_finds_them(batches, distinct) -> None:
    table, oracle = BinTable.create(FIXED), Oracle()
    for batch in batches:
        table.begin()
        assert probe(table, fixed_keys(batch, distinct=distinct)) == oracle.batch(batch)
        assert table.touched.tolist() == list(oracle.touched)
        assert table.rows == len(oracle.rows)


@given(
    st.lists(st.lists(st.binary(max_size=3) | st.binary(max_size=300), max_size=40), max_size=5),
    st.sampled_from([1, 3, 2**40]),
)
def test_byte_strings_are_found_as_a_dict_finds_them(batches, distinct) -> None:
    table, oracle = BinTable.create(TEXT), Oracle()
    for batch in batches:
        table.begin()
        assert probe(table, text_keys(batch, distinct=distinct)) == oracle.batch(batch)
        assert table.touched.tolist() == list(oracle.touched)
    assert strings(table, "key") == list(oracle.rows)


def test_growing_keeps_every_row_and_what_was_touched() -> None:
    table, many = BinTable.create(FIXED), list(range(5000))
    slots = table.probe(fixed_keys(many), np.arange(5000))
    table.arrays["n"][slots] = many
    assert table.rows == 5000
    assert table.arrays["n"][:5000].tolist() == many
    assert table.touched.tolist() == many
    table.begin()
    assert probe(table, fixed_keys(many[::-1])) == many[::-1]
    assert table.touched.tolist() == many[::-1]


def test_a_table_can_be_made_with_room_for_its_rows() -> None:
    table = BinTable.create(FIXED, rows=1000)
    buffer = table.buffer
    probe(table, fixed_keys(range(1000)))
    assert table.buffer is buffer
    assert not table.arrays["n"][1000:].any()


def test_a_thousand_keys_under_one_hash_stay_apart() -> None:
    table = BinTable.create(FIXED)
    keys = fixed_keys(range(1000), distinct=1)
    assert probe(table, keys) == list(range(1000))
    assert probe(table, keys) == list(range(1000))


def test_null_is_a_key_of_its_own_even_under_the_hash_of_zero() -> None:
    table = BinTable.create(FIXED)
    keys = KeyColumn.fixed(
        np.zeros(3, np.int64), hashes=np.zeros(3, np.int64), valid=np.array([1, 0, 1], np.uint8)
    )
    assert probe(table, keys) == [0, 1, 0]


def test_what_lies_under_a_null_does_not_matter() -> None:
    table = BinTable.create(FIXED)
    keys = KeyColumn.fixed(np.array([5, 6]), hashes=np.zeros(2, np.int64), valid=np.zeros(2, np.uint8))
    assert probe(table, keys) == [0, 0]


def test_only_the_given_rows_are_probed_in_the_given_order() -> None:
    table = BinTable.create(FIXED)
    assert table.probe(fixed_keys([7, 8, 9, 7]), np.array([2, 0, 3])).tolist() == [0, 1, 1]
    assert table.rows == 2


def test_begin_forgets_what_was_touched() -> None:
    table = BinTable.create(FIXED)
    probe(table, fixed_keys([1, 2, 1]))
    assert table.touched.tolist() == [0, 1]
    table.begin()
    assert table.touched.tolist() == []
    probe(table, fixed_keys([2]))
    assert table.touched.tolist() == [1]


def test_the_count_of_batches_may_wrap() -> None:
    table = BinTable.create(FIXED)
    probe(table, fixed_keys([1, 2, 3]))
    table.header[head.EPOCH] = 2**31 - 4
    for _ in range(6):
        table.begin()
        assert probe(table, fixed_keys([2, 3, 2])) == [1, 2, 1]
        assert table.touched.tolist() == [1, 2]
    assert 0 < table.header[head.EPOCH] < 10


def test_a_table_goes_on_in_the_buffer_of_another() -> None:
    table = BinTable.create(BYTES_BY_TEXT)
    put(table, text_keys([b"a", b"b" * 50]), [b"one", b"two" * 40])
    other = BinTable(BYTES_BY_TEXT, table.buffer)
    assert probe(other, text_keys([b"b" * 50, b"new"])) == [1, 2]
    assert table.rows == 3
    assert strings(other) == [b"one", b"two" * 40, b""]


@pytest.mark.parametrize("size", [1000, 1024, 1025, 5000, 100_000])
def test_the_first_string_may_be_larger_than_the_heap(size) -> None:
    by_text = BinTable.create(TEXT)
    probe(by_text, text_keys([b"x" * size]))
    assert strings(by_text, "key") == [b"x" * size]
    by_number = BinTable.create(BYTES_BY_NUMBER)
    put(by_number, fixed_keys([1]), [b"y" * size])
    assert strings(by_number) == [b"y" * size]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.binary(max_size=2) | st.binary(max_size=600)), max_size=12),
        max_size=6,
    )
)
def test_strings_that_shrink_and_grow_are_those_last_put(batches) -> None:
    table, wanted = BinTable.create(BYTES_BY_TEXT), dict[int, bytes]()
    for batch in batches:
        latest = dict(batch)
        put(table, text_keys([b"key %d" % key for key in latest]), list(latest.values()))
        wanted |= latest
        assert strings(table) == list(wanted.values())
        assert strings(table, "key") == [b"key %d" % key for key in wanted]
        assert table.header[head.HEAP_USED] - table.header[head.HEAP_GARBAGE] == live_heap(table)
        assert table.header[head.HEAP_USED] <= table.header[head.HEAP_SIZE]


def test_a_string_that_shrinks_and_grows_for_ever_takes_no_more_room() -> None:
    table = BinTable.create(BYTES_BY_NUMBER)
    for i in range(3000):
        put(table, fixed_keys([1]), [b"x" * (1000 if i % 2 else 1)])
    assert table.header[head.HEAP_SIZE] <= 8192
    assert strings(table) == [b"x" * 1000]


def test_state_bytes_counts_what_lives() -> None:
    table = BinTable.create(BYTES_BY_NUMBER)
    put(table, fixed_keys([1, 2]), [b"x" * 800, b"y" * 80])
    full = table.state_bytes
    put(table, fixed_keys([1, 2]), [b"x" * 80, b"y" * 800])
    assert table.state_bytes == full
    put(table, fixed_keys([1, 2]), [b"", b""])
    assert table.state_bytes == full - 880


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30)), max_size=20), st.sampled_from([1, 3, 4, 100])
)
def test_rings_keep_the_last_values_oldest_first(pushes, length) -> None:
    layout = StateLayout(True, (StateColumn("r", Kind.RING, length),))
    table, wanted = BinTable.create(layout), dict[int, list[float]]()
    value = 0.0
    for key, count in pushes:
        values = np.arange(value, value + count)
        value += count
        table.begin()
        apply(table, Extract(fixed_keys([key]), {"r": (np.array([0, count]), values)}))
        wanted[key] = (wanted.get(key, []) + values.tolist())[-length:]
        assert rings(table, np.arange(table.rows), whole=True) == list(wanted.values())
        assert rings(table, table.touched, whole=False) == [values[-length:].tolist()]
        assert table.header[head.HEAP_USED] - table.header[head.HEAP_GARBAGE] == live_heap(table)
        assert table.header[head.HEAP_USED] <= table.header[head.HEAP_SIZE]
