"""Rows that are removed: against a dict, with parts, colliding hashes, growth, and tables rebuilt from what was written."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.state.index import FOREVER
from headgate.state.keys import KeyColumn
from headgate.state.layout import Kind, StateColumn, StateLayout, head
from headgate.state.section import (
    Extract,
    apply,
    apply_removed,
    decode,
    encode,
    extract,
    extract_removed,
)
from headgate.state.table import BinTable

COLUMNS = (StateColumn("n", Kind.I64), StateColumn("s", Kind.BYTES), StateColumn("due", Kind.I64))
LAYOUTS = {
    "numbers": StateLayout(True, COLUMNS),
    "texts": StateLayout(False, COLUMNS),
    "numbers with parts": StateLayout(True, COLUMNS, parts=True, grouped=True),
    "texts with parts": StateLayout(False, COLUMNS, parts=True, grouped=True),
}
BY_LAYOUT = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
FEW = settings(max_examples=settings().max_examples // 2)


def keys_of(layout, pairs, distinct=2**40):
    """(key, part) pairs as keys; with `distinct` small many hashes are equal."""
    hashes = np.array([key * 7919 % distinct for key, _ in pairs], np.int64)
    parts = np.array([part for _, part in pairs], np.int64) if layout.parts else np.zeros(0, np.int64)
    if layout.fixed_key:
        data = np.array([key for key, _ in pairs], np.int64)
        return KeyColumn(hashes, data, np.zeros(0, np.uint8), np.zeros(0, np.int64), parts)
    texts = [b"k" * key for key, _ in pairs]
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    data = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
    return KeyColumn(hashes, data, np.zeros(0, np.uint8), offsets, parts)


def write(table, layout, pairs, values, distinct) -> None:
    """Give each pair a number and a string of that length."""
    keys = keys_of(layout, pairs, distinct)
    slots = table.probe(keys, np.arange(len(pairs)), keys.parts)
    table.arrays["n"][slots] = values
    table.arrays["due"][slots] = values
    table.due = min([table.due, *values])
    offsets = np.cumsum([0, *values]).astype(np.int64)
    data = np.full(int(offsets[-1]), 65, np.uint8)
    piece = Extract(keys, {"n": np.array(values), "s": (offsets, data), "due": np.array(values)})
    apply(table, piece)


def find(table, layout, pairs, distinct):
    keys = keys_of(layout, pairs, distinct)
    return table.find(keys, np.arange(len(pairs)), keys.parts)


def contents(table, layout):
    """(key, part) -> (number, string length), read from the rows that are there."""
    piece = extract(table, table.live, whole=True)
    numbers = piece.columns["n"]
    assert isinstance(numbers, np.ndarray)
    sizes = np.diff(piece.columns["s"][0]).tolist()
    keys = piece.keys.data.tolist() if layout.fixed_key else np.diff(piece.keys.offsets).tolist()
    parts = piece.keys.parts.tolist() if layout.parts else [0] * len(piece)
    return dict(
        zip(
            zip(keys, parts, strict=True),
            zip(numbers.tolist(), sizes, strict=True),
            strict=True,
        )
    )


def chains(table, layout, distinct, highest):
    """Key -> its parts, as the chain of rows gives them."""
    found: dict[int, set[int]] = {}
    keys = keys_of(layout, [(key, 0) for key in range(highest)], distinct)
    for key, row in enumerate(table.first(keys, np.arange(highest)).tolist()):
        while row >= 0:
            found.setdefault(key, set()).add(int(table.arrays["part"][row]))
            row = int(table.arrays["next"][row]) - 1
    return found


pairs = st.tuples(st.integers(0, 12), st.integers(-2, 2))
steps = st.lists(
    st.tuples(st.lists(st.tuples(pairs, st.integers(0, 40)), max_size=30), st.lists(pairs, max_size=12)),
    max_size=6,
)


@BY_LAYOUT
@given(batches=steps, distinct=st.sampled_from([1, 3, 2**40]), again=st.booleans())
@FEW
def test_it_holds_what_a_dict_holds_and_can_be_rebuilt(layout, batches, distinct, again) -> None:
    table, oracle = BinTable.create(layout), dict[tuple[int, int], tuple[int, int]]()
    rebuilt = BinTable.create(layout)
    for added, removed in batches:
        table.begin()
        if not layout.parts:
            added = [((key, 0), value) for (key, _), value in added]
            removed = [(key, 0) for key, _ in removed]
        if added:
            write(table, layout, [pair for pair, _ in added], [value for _, value in added], distinct)
        oracle |= {pair: (value, value) for pair, value in added}
        slots = find(table, layout, removed, distinct)
        assert (slots >= 0).tolist() == [pair in oracle for pair in removed]
        table.remove(slots[slots >= 0])
        oracle = {pair: value for pair, value in oracle.items() if pair not in removed}
        if again and removed:  # a key that comes back in the same batch
            write(table, layout, removed[:1], [5], distinct)
            oracle[removed[0]] = (5, 5)
        assert contents(table, layout) == oracle
        assert table.rows == len(oracle) == len(table.live)
        assert (find(table, layout, removed[1:], distinct) >= 0).tolist() == [
            p in oracle for p in removed[1:]
        ]
        if layout.grouped:
            wanted: dict[int, set[int]] = {}
            for key, part in oracle:
                wanted.setdefault(key, set()).add(part)
            assert chains(table, layout, distinct, 13) == wanted
        gone, rows = extract_removed(table), extract(table, table.touched, whole=False)
        for piece, form, act in ((gone, layout.keys_only, apply_removed), (rows, layout, apply)):
            raw = b"".join(part.tobytes() for part in encode(piece, form))
            act(rebuilt, decode(np.frombuffer(bytearray(raw), np.uint8), len(piece), form))
        assert contents(rebuilt, layout) == oracle
    for each in (table, rebuilt):
        each.begin()
        sizes = [each.arrays[size][each.live] * unit for _, size, unit in layout.heap_refs]
        live = sum(int(((size + 7) & ~7).sum()) for size in sizes)
        assert each.header[head.HEAP_USED] - each.header[head.HEAP_GARBAGE] == live


@BY_LAYOUT
def test_the_places_of_removed_rows_are_used_again(layout) -> None:
    table = BinTable.create(layout)
    for batch in range(50):
        table.begin()
        write(table, layout, [(batch * 10 + i, 0) for i in range(10)], [3] * 10, 2**40)
        table.remove(
            find(table, layout, [(batch * 10 + i - 10, 0) for i in range(10)], 2**40)
            if batch
            else table.live[:0]
        )
    assert table.rows == 10
    assert table.header[head.ROWS] <= 30
    assert table.header[head.CAPACITY] == 32
    assert table.header[head.HEAP_SIZE] <= 16384


def test_a_removed_row_that_is_removed_again_is_removed_once() -> None:
    layout = LAYOUTS["numbers"]
    table = BinTable.create(layout)
    write(table, layout, [(1, 0), (2, 0)], [1, 2], 2**40)
    table.begin()
    table.remove(np.array([0, 0]))
    table.remove(np.array([0]))
    assert (table.rows, table.removed.tolist(), table.touched.tolist()) == (1, [0], [])


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50)), min_size=1, max_size=40), st.integers(0, 50)
)
@FEW
def test_what_is_due_is_found_and_the_bound_is_that_of_the_rest(rows, now) -> None:
    layout = LAYOUTS["numbers"]
    table = BinTable.create(layout)
    write(table, layout, [(key, 0) for key, _ in rows], [time for _, time in rows], 2**40)
    times = dict(rows)
    assert table.due <= min(times.values())
    due = table.take_due("due", now)
    assert sorted(table.arrays["key"][due].tolist()) == sorted(k for k, t in times.items() if t <= now)
    table.remove(due)
    rest = [t for t in times.values() if t > now]
    assert table.due == (min(rest) if rest else FOREVER)
    assert len(table.take_due("due", now)) == 0


def test_a_marked_row_is_part_of_the_delta_and_counts_no_rows() -> None:
    layout = LAYOUTS["numbers"]
    table = BinTable.create(layout)
    write(table, layout, [(1, 0), (2, 0)], [1, 2], 2**40)
    table.begin()
    table.mark(np.array([1, 1]))
    assert table.touched.tolist() == [1]
    assert table.touches[1].tolist() == [0]
