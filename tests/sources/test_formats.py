"""Formats against slow oracles, and the rules of types."""

import csv
import gzip
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sources.conftest import Driver

from headgate.sources import Files
from headgate.sources.csv_format import CsvFormat
from headgate.sources.formats import Piece
from headgate.sources.json_format import JsonFormat
from headgate.sources.place import Place
from headgate.sources.text import blocks, to_times
from headgate.state.payload import Payload

KINDS = pa.schema(
    [
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("d", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("who", pa.struct([("id", pa.int32()), ("name", pa.string())])),
    ]
)
values = {
    "n": st.integers(-(2**63), 2**63 - 1),
    "x": st.floats(allow_nan=False, allow_infinity=False),
    "b": st.booleans(),
    "s": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "d": st.decimals(-(10**9), 10**9, places=2),
    "day": st.dates(),
    "at": st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
    "tags": st.lists(st.sampled_from(["a", "", "é"]), max_size=2),
    "who": st.fixed_dictionaries({"id": st.integers(0, 9), "name": st.none() | st.just("ann")}),
}
row = st.fixed_dictionaries({}, optional={name: st.none() | value for name, value in values.items()})
rows_of_a_file = st.lists(row, max_size=5).filter(lambda rows: not rows or any(rows))


def plain(value):
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, date) else value


class Memory:
    """A place with one file."""

    def __init__(self, folder, data):
        self.place = Place(str(folder))
        self.size = len(data)
        with open(f"{folder}/f", "wb") as file:
            file.write(data)

    def read(self, of, schema, start=0, end=-1, columns=None):
        tables = of.read(self.place, Piece("f", self.size, 0, start, end), schema, columns or schema)
        return [row for table in tables for row in table.to_pylist()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("format")


@settings(max_examples=60, deadline=None)
@given(rows_of_a_file, st.booleans(), st.data())
def test_json_lines_are_what_the_json_module_reads(folder, rows, blank, data) -> None:
    lines = [json.dumps({k: plain(v) for k, v in row.items()} | {"other": {"z": 1}}) for row in rows]
    text = ("\n\n" if blank else "\n").join(lines).encode()
    memory = Memory(folder, text)
    wanted = [{name: row.get(name) for name in KINDS.names} for row in rows]
    edges = sorted({0, *data.draw(st.lists(st.integers(0, len(text)), max_size=3)), len(text)})
    pieces = zip(edges, [*edges[1:-1], -1], strict=False) if len(edges) > 1 else [(0, -1)]
    assert [row for a, b in pieces for row in memory.read(JsonFormat(), KINDS, a, b)] == wanted
    few = pa.schema([KINDS.field("s"), KINDS.field("at")])
    assert memory.read(JsonFormat(), KINDS, columns=few) == [{k: row[k] for k in few.names} for row in wanted]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.binary(max_size=6).map(lambda b: b.replace(b"\r", b"")), max_size=6),
    st.integers(1, 9),
    st.data(),
)
def test_ranges_of_bytes_share_no_line_and_lose_none(folder, lines, size, data) -> None:
    text = b"\n".join(lines)
    memory = Memory(folder, text)
    edges = sorted({0, *data.draw(st.lists(st.integers(1, max(1, len(text))), max_size=3))})
    ends = [*edges[1:], -1]
    found = [b for a, z in zip(edges, ends, strict=True) for b in blocks(memory.place, "f", a, z, size)]
    assert b"".join(part for _, part in found) == text
    assert all(text[at : at + len(part)] == part for at, part in found)
    assert all(part.endswith(b"\n") for _, part in found[:-1])


FLAT = pa.schema([field for field in KINDS if not pa.types.is_nested(field.type)])
flat = st.fixed_dictionaries({name: st.none() | values[name] for name in FLAT.names})


@settings(max_examples=60, deadline=None)
@given(st.lists(flat, max_size=5), st.booleans(), st.sampled_from(",;|"))
def test_csv_is_what_the_csv_module_writes(folder, rows, header, delimiter) -> None:
    rows = [{**row, "s": (row["s"] or "").replace("\r", "").replace("\0", "")} for row in rows]
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    if header:
        writer.writerow(FLAT.names)
    for row in rows:
        shown = {
            k: "" if v is None else (str(v).lower() if isinstance(v, bool) else plain(v))
            for k, v in row.items()
        }
        shown["d"] = "" if row["d"] is None else str(row["d"])
        writer.writerow([shown[name] for name in FLAT.names])
    memory = Memory(folder, text.getvalue().encode())
    wanted = [{**row, "s": row["s"] or None} for row in rows]
    of = CsvFormat({"header": header, "delimiter": delimiter})
    assert memory.read(of, FLAT) == wanted
    few = pa.schema([FLAT.field("at"), FLAT.field("n")])
    assert memory.read(of, FLAT, columns=few) == [{k: row[k] for k in few.names} for row in wanted]


def test_csv_with_other_columns_nulls_and_newlines(folder) -> None:
    data = b'\xef\xbb\xbfextra,s,n\n1,"a\nb",2\n1,NA,NA\n1,"NA",3\n1,,4\n'
    schema = pa.schema([("n", pa.int64()), ("s", pa.string()), ("gone", pa.float64())])
    read = Memory(folder, data).read(CsvFormat({"null": "NA"}), schema)
    assert [(row["n"], row["s"], row["gone"]) for row in read] == [
        (2, "a\nb", None),
        (None, None, None),
        (3, "NA", None),
        (4, "", None),
    ]
    assert Memory(folder, b"").read(CsvFormat(), schema) == []
    assert Memory(folder, b"n,s\n").read(CsvFormat(), schema) == []


def test_csv_with_decimal_commas_and_several_words_for_null(folder) -> None:
    data = b'x;d;s\n1,5;2,25;n/a\nn/a;;-\n-0,5;"1,00";"n/a"\n'
    schema = pa.schema([("x", pa.float64()), ("d", pa.decimal128(9, 2)), ("s", pa.string())])
    of = CsvFormat({"delimiter": ";", "decimal": ",", "null": ["", "n/a", "-"]})
    assert [tuple(row.values()) for row in Memory(folder, data).read(of, schema)] == [
        (1.5, Decimal("2.25"), None),
        (None, None, None),
        (-0.5, Decimal("1.00"), "n/a"),
    ]


def test_json_numbers_as_strings_keep_their_digits(folder) -> None:
    data = b'{"s":1.50,"d":"2.5","m":{"k":1,"l":null}}\n{"s":"t","s":"u","d":1e1}\n\n{"s":12345678901234567890}\n'
    schema = pa.schema(
        [("s", pa.string()), ("d", pa.decimal128(9, 1)), ("m", pa.map_(pa.string(), pa.int64()))]
    )
    assert Memory(folder, data).read(JsonFormat(), schema) == [
        {"s": "1.50", "d": Decimal("2.5"), "m": [("k", 1), ("l", None)]},
        {"s": "u", "d": Decimal("10.0"), "m": None},
        {"s": "12345678901234567890", "d": None, "m": None},
    ]


def test_json_with_a_mark_and_carriage_returns(folder) -> None:
    schema = pa.schema([("n", pa.int64())])
    assert Memory(folder, b'\xef\xbb\xbf{"n":1}\r\n\r\n{"n":2}').read(JsonFormat(), schema) == [
        {"n": 1},
        {"n": 2},
    ]
    assert Memory(folder, b"").read(JsonFormat(), schema) == []
    assert Memory(folder, b"\n \n").read(JsonFormat(), schema) == []


def test_times_in_iso_8601() -> None:
    texts = [
        "2024-01-31T01:00:00Z",
        "2024-01-31 01:00:00",
        "2024-01-31T03:00:00+02:00",
        "2024-01-31T03:00:00.000000000+0200",
        " 2024-01-31T01:00 ",
        "2024-01-30T22:30:00-02:30",
    ]
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")):
        times = to_times(pa.chunked_array([[*texts, "2024-01-31", None]]), kind).to_pylist()
        assert times == [datetime(2024, 1, 31, 1, tzinfo=UTC)] * 6 + [datetime(2024, 1, 31, tzinfo=UTC), None]


def test_packed_files_are_whole(inbox, store) -> None:
    lines = b"".join(b'{"n":%d}\n' % n for n in range(1000))
    inbox.put("a.json.gz", gzip.compress(lines))
    driver = Driver(lambda: Files(inbox.path, pa.schema([("n", pa.int64())])), store)
    assert len(driver.plan(rows=10, tasks=4).ranges) == 1
    assert driver.batch(rows=10)["n"].to_pylist() == list(range(1000))
    inbox.put("b.json.gz", gzip.compress(lines)[:-200])
    with pytest.raises(Exception, match=r"b\.json\.gz failed"):
        driver.batch()


def test_a_large_json_file_is_many_batches(inbox, store) -> None:
    inbox.put("a.json", b"".join(b'{"n":%d,"pad":"%s"}\n' % (n, b"x" * 80) for n in range(20_000)))
    driver = Driver(lambda: Files(inbox.path, pa.schema([("n", pa.int64())])), store)
    parts = [driver.batch(rows=3000).num_rows]
    while parts[-1]:
        parts.append(driver.batch(rows=3000).num_rows)
    assert sum(parts) == 20_000
    assert max(parts) < 4000
    assert len(parts) > 6


LIST = pa.list_(pa.string())


@pytest.mark.parametrize(
    ("have", "want"),
    [
        (pa.array([1, None], pa.int8()), pa.int64()),
        (pa.array([1, None], pa.uint32()), pa.int64()),
        (pa.array([1, None], pa.int32()), pa.float64()),
        (pa.array([1, None], pa.int32()), pa.decimal128(12, 2)),
        (pa.array([1.5, None], pa.float32()), pa.float64()),
        (pa.array([Decimal("1.5"), None], pa.decimal128(3, 1)), pa.decimal128(12, 2)),
        (pa.array(["a", None]).dictionary_encode(), pa.string()),
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array([b"a", None], pa.large_binary()), pa.binary()),
        (pa.array([1000, None], pa.timestamp("ns", "UTC")), pa.timestamp("us", "UTC")),
        (pa.array([1, None], pa.timestamp("ms", "Europe/Berlin")), pa.timestamp("us", "UTC")),
        (pa.array([["a"], [], None], pa.large_list(pa.large_string())), LIST),
        (pa.array([["a"], [], None], LIST), Payload(LIST, "array<string>")),
        (pa.array([{"a": 1}, None], pa.struct([("a", pa.int32())])), pa.struct([("a", pa.int64())])),
        (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())), pa.map_(pa.string(), pa.int64())),
        (pa.array([None, None]), pa.string()),
    ],
    ids=str,
)
def test_columns_are_widened(inbox, store, have, want) -> None:
    inbox.put("a.parquet", pa.table({"more": [0] * len(have), "x": have}))
    schema = pa.schema([("x", want), ("fewer", Payload(LIST, "array<string>"))])
    read = Driver(lambda: Files(inbox.path, schema), store).batch()
    assert read.schema == schema
    read.validate(full=True)
    assert read["fewer"].null_count == len(have)
    shown = [float(v) if isinstance(v, Decimal) else v for v in read["x"].to_pylist()]
    assert shown == [float(v) if isinstance(v, Decimal) else v for v in have.to_pylist()]
