"""The law of state: a snapshot and the deltas after it rebuild exactly the table that wrote them."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import CorruptState
from headgate.state.keys import KeyColumn
from headgate.state.layout import Kind, StateColumn, StateLayout
from headgate.state.section import Extract, apply, decode, encode, extract, join_extracts
from headgate.state.table import BinTable

FEW = settings(max_examples=settings().max_examples // 2)  # each example is a run of many steps

NONE = np.zeros(0, np.uint8)
COLUMNS = (
    StateColumn("i", Kind.I64),
    StateColumn("f", Kind.F64),
    StateColumn("u", Kind.U8),
    StateColumn("s", Kind.BYTES),
    StateColumn("t", Kind.BYTES),
    StateColumn("r", Kind.RING, 5),
    StateColumn("q", Kind.RING, 1),
)
EVERY_KIND = [StateLayout(fixed, COLUMNS) for fixed in (True, False)]
BOTH_KEYS = pytest.mark.parametrize("layout", EVERY_KIND, ids=["fixed key", "bytes key"])

values = {
    Kind.I64: st.integers(-(2**63), 2**63 - 1),
    Kind.F64: st.floats(allow_nan=False),
    Kind.U8: st.integers(0, 255),
    Kind.BYTES: st.binary(max_size=3) | st.binary(max_size=200),
    Kind.RING: st.lists(st.floats(allow_nan=False), max_size=12),
}


def keys_of(keys, layout):
    """Small numbers (None is null) as keys of a layout; a third share a hash."""
    hashes = np.array([0 if key is None else key % 3 for key in keys], np.int64)
    if layout.fixed_key:
        valid = np.array([key is not None for key in keys], np.uint8)
        return KeyColumn.fixed(
            np.array([key or 0 for key in keys], np.int64),
            hashes=hashes,
            valid=NONE if valid.all() else valid,
        )
    text = [b"" if key is None else b"k" * key for key in keys]
    offsets = np.cumsum([0, *map(len, text)]).astype(np.int64)
    return KeyColumn(hashes, np.frombuffer(bytearray(b"".join(text)), np.uint8), NONE, offsets)


def piece_of(rows, layout):
    """An extract from {key: {column: value}}."""
    columns: dict[str, Any] = {}
    for column in layout.columns:
        cells = [row[column.name] for row in rows.values()]
        if column.kind is Kind.BYTES:
            data = np.frombuffer(bytearray(b"".join(cells)), np.uint8)
        elif column.kind is Kind.RING:
            data = np.array([v for cell in cells for v in cell], np.float64)
        else:
            dtype = {Kind.I64: np.int64, Kind.F64: np.float64, Kind.U8: np.uint8}[column.kind]
            columns[column.name] = np.array(cells, dtype)
            continue
        columns[column.name] = (np.cumsum([0, *map(len, cells)]).astype(np.int64), data)
    return Extract(keys_of(list(rows), layout), columns)


def cells_of(piece, name, kind):
    column = piece.columns[name]
    if not isinstance(column, tuple):
        return column.tolist()
    offsets, data = column
    parts = [data[a:b] for a, b in pairwise(offsets)]
    return [p.tobytes() if kind is Kind.BYTES else p.tolist() for p in parts]


def everything(table):
    return extract(table, np.arange(table.rows, dtype=np.int32), whole=True)


def content(table):
    """{key: {column: value}} of a table, in the order of its rows."""
    piece = everything(table)
    if table.layout.fixed_key:
        valid = piece.keys.valid if len(piece.keys.valid) else np.ones(len(piece), np.uint8)
        keys = [int(key) if ok else None for key, ok in zip(piece.keys.data, valid, strict=True)]
    else:
        keys = [int(size) or None for size in np.diff(piece.keys.offsets)]
    columns = {c.name: cells_of(piece, c.name, c.kind) for c in table.layout.columns}
    return {key: {name: cells[i] for name, cells in columns.items()} for i, key in enumerate(keys)}


def section(piece, layout):
    return len(piece), b"".join(part.tobytes() for part in encode(piece, layout))


def whole_section(table):
    return section(everything(table), table.layout)


def rebuild(sections, layout):
    table = BinTable.create(layout)
    for rows, data in sections:
        apply(table, decode(np.frombuffer(bytearray(data), np.uint8), rows, layout))
    table.begin()
    return table


batches = st.lists(
    st.tuples(
        st.dictionaries(
            st.none() | st.integers(1, 9),
            st.fixed_dictionaries({c.name: values[c.kind] for c in COLUMNS}),
            max_size=5,
        ),
        st.booleans(),
    ),
    max_size=6,
)


@BOTH_KEYS
@given(batches=batches)
@FEW
def test_sections_rebuild_exactly_the_table_that_wrote_them(layout, batches) -> None:
    table, log = BinTable.create(layout), []
    wanted: dict[Any, dict[str, Any]] = {}
    for rows, snapshot in batches:
        table.begin()
        apply(table, piece_of(rows, layout))
        for key, row in rows.items():
            before = wanted.get(key, {})
            rings = {c.name: (before.get(c.name, []) + row[c.name])[-c.length :] for c in COLUMNS[-2:]}
            wanted[key] = row | rings
        if snapshot:
            log = [whole_section(table)]
        else:
            log.append(section(extract(table, table.touched, whole=False), layout))
        assert content(table) == wanted
        again = rebuild(log, layout)
        assert content(again) == wanted
        assert whole_section(again) == whole_section(table)  # the very bytes: rows in the same order too


@BOTH_KEYS
def test_a_delta_holds_what_was_touched_and_of_rings_what_is_new(layout) -> None:
    row = {"i": 1, "f": 1.0, "u": 1, "s": b"s", "t": b"", "r": [1.0, 2.0, 3.0, 4.0], "q": [1.0]}
    table = BinTable.create(layout)
    apply(table, piece_of({1: row, 2: row, 3: row}, layout))
    table.begin()
    apply(table, piece_of({3: row | {"r": [5.0, 6.0], "s": b"longer than it was"}}, layout))
    delta = extract(table, table.touched, whole=False)
    assert len(delta) == 1
    assert cells_of(delta, "r", Kind.RING) == [[5.0, 6.0]]
    assert cells_of(delta, "s", Kind.BYTES) == [b"longer than it was"]
    assert content(table)[3]["r"] == [2.0, 3.0, 4.0, 5.0, 6.0]


@BOTH_KEYS
def test_a_delta_of_a_ring_that_was_passed_over_whole_is_the_ring(layout) -> None:
    row = {"i": 1, "f": 1.0, "u": 1, "s": b"s", "t": b"", "r": [float(i) for i in range(12)], "q": [1.0, 2.0]}
    table = BinTable.create(layout)
    apply(table, piece_of({1: row}, layout))
    delta = extract(table, table.touched, whole=False)
    assert cells_of(delta, "r", Kind.RING) == [[7.0, 8.0, 9.0, 10.0, 11.0]]
    assert cells_of(delta, "q", Kind.RING) == [[2.0]]


@BOTH_KEYS
@given(parts=st.lists(st.sets(st.none() | st.integers(1, 9), max_size=4), min_size=1, max_size=4))
@FEW
def test_joined_extracts_are_their_rows_end_to_end(layout, parts) -> None:
    row = {"i": 1, "f": 1.0, "u": 1, "s": b"s", "t": b"tt", "r": [1.0, 2.0], "q": []}
    pieces = [
        piece_of({key: row | {"i": n, "s": b"s" * n} for key in keys}, layout) for n, keys in enumerate(parts)
    ]
    joined = join_extracts(pieces)
    assert len(joined) == sum(map(len, parts))
    for column in COLUMNS:
        cells = [cell for piece in pieces for cell in cells_of(piece, column.name, column.kind)]
        assert cells_of(joined, column.name, column.kind) == cells
    size, data = section(joined, layout)
    back = decode(np.frombuffer(bytearray(data), np.uint8), size, layout)
    assert encode(back, layout)[0].tobytes() == joined.keys.hashes.tobytes()


@BOTH_KEYS
def test_a_section_of_no_rows(layout) -> None:
    size, data = section(everything(BinTable.create(layout)), layout)
    assert (size, data) == (0, b"")
    assert content(rebuild([(size, data)], layout)) == {}


@pytest.fixture(params=EVERY_KIND, ids=["fixed key", "bytes key"])
def good(request):
    """A layout, its section of two rows, and the rows."""
    row = {"i": 1, "f": 1.0, "u": 1, "s": b"some", "t": b"text", "r": [1.0, 2.0], "q": [3.0]}
    return request.param, *section(piece_of({1: row, 2: row}, request.param), request.param)


def decoded(layout, rows, data):
    return decode(np.frombuffer(bytearray(data), np.uint8), rows, layout)


def test_a_payload_that_is_too_short_at_any_length_is_refused(good) -> None:
    layout, rows, data = good
    for size in range(len(data)):
        with pytest.raises(CorruptState, match="a section of 2 rows"):
            decoded(layout, rows, data[:size])


def test_a_payload_that_is_too_long_is_refused(good) -> None:
    layout, rows, data = good
    with pytest.raises(CorruptState, match="where its columns need"):
        decoded(layout, rows, data + bytes(8))


@pytest.mark.parametrize("rows", [-1, 0, 1, 3, 10**15])
def test_another_number_of_rows_is_refused(good, rows) -> None:
    layout, _, data = good
    with pytest.raises(CorruptState, match=f"a section of {rows} rows"):
        decoded(layout, rows, data)


@pytest.mark.parametrize("sizes", [(-4, 8), (5, -1), (2**63 - 1, 2**63 - 1), (2**62, 4)], ids=str)
def test_sizes_that_cannot_be_are_refused_before_anything_is_read_by_them(sizes) -> None:
    layout = StateLayout(True, (StateColumn("s", Kind.BYTES),))
    rows, data = section(piece_of({1: {"s": b"some"}, 2: {"s": b"text"}}, layout), layout)
    at = data.index(np.array([4, 4]).tobytes())
    with pytest.raises(CorruptState, match="a section of 2 rows"):
        decoded(layout, rows, data[:at] + np.array(sizes).tobytes() + data[at + 16 :])
