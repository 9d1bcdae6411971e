"""A state file gives back what was written, or an error by name; never a wrong answer."""

import struct
from typing import Any

import numpy as np
import pytest

from headgate.errors import CorruptState, NewerFormat, OlderFormat
from headgate.state.keys import KeyColumn
from headgate.state.layout import Kind, StateColumn, StateLayout
from headgate.state.section import Extract, encode
from headgate.storage import section_file, state_file
from headgate.storage.commit_log import FORMAT
from headgate.storage.state_file import Piece
from headgate.storage.store import Store

LAYOUT = StateLayout(
    True, (StateColumn("n", Kind.I64), StateColumn("s", Kind.BYTES), StateColumn("u", Kind.U8))
)


def rows_of(*keys):
    data = np.array(keys, np.int64)
    text = b"".join(b"text %d" % key for key in keys)
    offsets = np.cumsum([0, *(len(b"text %d" % key) for key in keys)]).astype(np.int64)
    columns: dict[str, Any] = {
        "n": data * 10,
        "s": (offsets, np.frombuffer(bytearray(text), np.uint8)),
        "u": np.ones(len(keys), np.uint8),
    }
    return Extract(KeyColumn.fixed(data, hashes=data * 3), columns)


def as_bytes(rows):
    return b"".join(part.tobytes() for part in encode(rows, LAYOUT))


PIECES = [Piece(3, False, rows_of(1, 2)), Piece(7, True, rows_of(3)), Piece(1, False, rows_of())]
WANTED = [(p.bin, p.kind, as_bytes(p.rows)) for p in PIECES]


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path):
    made = Store(str(tmp_path) if request.param == "local" else "memory://state-files", durable=False)
    made.make("")
    return made


@pytest.fixture
def good(store):
    """The bytes of a small file."""
    size = state_file.write(store, "file", LAYOUT, PIECES)
    data = store.read("file")
    assert len(data) == size
    return data


def read(store, name="file", wanted=None):
    return [
        (b, snapshot, as_bytes(rows)) for b, snapshot, rows in state_file.read(store, name, LAYOUT, wanted)
    ]


def test_there_and_back(store, good) -> None:
    assert read(store) == WANTED


def test_the_keys_of_rows_that_are_gone_come_before_the_rows(store) -> None:
    gone = Extract(KeyColumn.fixed(np.array([4]), hashes=np.array([12])), {})
    state_file.write(
        store, "file", LAYOUT, [Piece(3, state_file.GONE, gone), Piece(3, state_file.DELTA, rows_of(4))]
    )
    found = list(state_file.read(store, "file", LAYOUT))
    assert [(b, kind, rows.keys.data.tolist(), sorted(rows.columns)) for b, kind, rows in found] == [
        (3, state_file.GONE, [4], []),
        (3, state_file.DELTA, [4], ["n", "s", "u"]),
    ]


def test_only_the_wanted_bins_are_read(store, good, monkeypatch) -> None:
    assert read(store, wanted={7}) == [WANTED[1]]
    assert read(store, wanted={99}) == []
    damaged = bytearray(good)
    damaged[good.index(b"text 1")] ^= 1  # in bin 3
    store.replace("file", bytes(damaged))
    assert read(store, wanted={7}) == [WANTED[1]]
    with pytest.raises(CorruptState, match=r"bytes \d+-\d+ \(bin 3\): its checksum"):
        read(store, wanted={3})


def test_rows_read_back_can_be_changed_in_place(store, good) -> None:
    for _, _, rows in state_file.read(store, "file", LAYOUT):
        assert rows.keys.hashes.flags.writeable


def test_cut_short_at_any_length(store, good) -> None:
    for size in range(len(good)):
        store.replace("file", good[:size])
        with pytest.raises(CorruptState, match=r"state file .*file.* restore the file from a backup"):
            read(store)


def test_any_byte_changed(store, good) -> None:
    for at in range(len(good)):
        for flip in (1, 255):
            damaged = bytearray(good)
            damaged[at] ^= flip
            store.replace("file", bytes(damaged))
            with pytest.raises((CorruptState, NewerFormat, OlderFormat), match=r"state file .*file"):
                read(store)


def test_bytes_added_anywhere(store, good) -> None:
    for at in (0, 8, 16, 40, len(good) - 24, len(good)):
        store.replace("file", good[:at] + b"\0" * 8 + good[at:])
        with pytest.raises((CorruptState, NewerFormat, OlderFormat), match=r"state file .*file"):
            read(store)


@pytest.mark.parametrize("rest", ["the same", "another shape"])
def test_a_newer_format_is_named_whatever_comes_after(store, good, rest) -> None:
    start = struct.pack("<8sII", b"HEADGATE", FORMAT + 1, 5)
    store.replace("file", start + (good[16:] if rest == "the same" else b"?" * 40))
    with pytest.raises(
        NewerFormat, match=f"has format {FORMAT + 1}, and this headgate reads format {FORMAT}; upgrade"
    ):
        read(store)


def test_a_missing_file_is_named(store) -> None:
    with pytest.raises(CorruptState, match=r"state file .*nowhere is missing; restore"):
        read(store, "nowhere")


def test_another_layout_is_named(store, good) -> None:
    other = StateLayout(True, (StateColumn("m", Kind.I64),))
    with pytest.raises(CorruptState, match=r"holds columns .*'n'.* not .*'m'"):
        list(state_file.read(store, "file", other))


def test_a_section_of_another_shape_under_a_good_checksum_is_named_with_its_file(store) -> None:
    lying = Extract(KeyColumn.fixed(np.arange(3), hashes=np.arange(2)), rows_of(1, 2).columns)
    state_file.write(store, "file", LAYOUT, [Piece(5, False, lying)])
    with pytest.raises(CorruptState, match=r"state file .*file, bin 5: a section of 2 rows .* restore"):
        read(store)


@pytest.mark.parametrize("bins", [900, 4000])
def test_a_file_with_a_footer_larger_than_the_first_guess(tmp_path, bins) -> None:
    store = Store(str(tmp_path), durable=False)
    state_file.write(store, "file", LAYOUT, [Piece(b, False, rows_of(b)) for b in range(bins)])
    assert read(store, wanted={0, bins - 1}) == [(b, False, as_bytes(rows_of(b))) for b in (0, bins - 1)]
    data = store.read("file")
    for damage in (len(data) - 30, len(data) - 20, 9, 20):
        damaged = bytearray(data)
        damaged[damage] ^= 255
        store.replace("file", bytes(damaged))
        with pytest.raises((CorruptState, NewerFormat)):
            read(store, wanted={0})


def test_a_file_without_sections(store) -> None:
    state_file.write(store, "file", LAYOUT, [])
    assert read(store) == []


def test_a_small_file_is_fetched_once_for_all_its_bins(store) -> None:
    state_file.write(store, "file", LAYOUT, [Piece(b, state_file.DELTA, rows_of(b)) for b in (1, 2)])
    known: dict[str, section_file.Contents] = {}
    (first,) = state_file.read(store, "file", LAYOUT, {1}, known)
    store.remove("file")
    (second,) = state_file.read(store, "file", LAYOUT, {2}, known)
    assert (first[0], second[0], as_bytes(second[2])) == (1, 2, as_bytes(rows_of(2)))


def test_the_sections_of_a_known_file_are_verified(store) -> None:
    state_file.write(store, "file", LAYOUT, [Piece(1, state_file.DELTA, rows_of(1))])
    file = section_file.contents(store, "file", "state file")
    (section,) = file.sections
    assert file.whole is not None
    damaged = bytearray(file.whole)
    damaged[section.at] ^= 1
    with pytest.raises(CorruptState, match="is damaged at bytes"):
        section_file.read(store, "file", [section], "state file", whole=bytes(damaged))
