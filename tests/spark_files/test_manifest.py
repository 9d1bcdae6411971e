"""The commit record: a value that survives the way through bytes, and says which files make up a bin."""

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import CorruptState, NewerFormat
from headgate.spark.manifest import FORMAT, Manifest, StateFile, live_files

numbers = st.integers(0, 2**53)
names = st.text(max_size=8)
files = st.builds(StateFile, names, numbers, st.frozensets(st.integers(0, 300), max_size=9))
mappings = st.dictionaries(st.integers(0, 300), numbers, max_size=5)
native = st.dictionaries(names, st.none() | numbers | names | st.lists(numbers, max_size=3), max_size=3)
manifests = st.builds(
    Manifest,
    batch=numbers,
    run=names,
    channels=numbers,
    files=st.lists(files, max_size=4).map(tuple),
    bases=mappings,
    state_bytes=mappings,
    state_keys=mappings,
    due=st.dictionaries(st.integers(0, 300), st.integers(-(2**60), 2**60), max_size=5),
    clock=st.none() | native,
    aside=st.lists(names, max_size=2).map(tuple),
    credit=numbers,
    table=native,
    loop=native,
    output=st.lists(names, max_size=3).map(tuple),
    journal=names,
)


@given(manifests)
def test_there_and_back(manifest):
    assert Manifest.decode(manifest.encode(), "here") == manifest


@pytest.fixture
def small():
    """Bin 0 in three files since batch 1, bin 1 rewritten whole in batch 3, bin 2 only there."""
    files = (
        StateFile("a", 1, frozenset({0, 1})),
        StateFile("b", 2, frozenset({0})),
        StateFile("c", 3, frozenset({1, 2})),
        StateFile("d", 3, frozenset({0})),
    )
    return Manifest(
        batch=3, run="r", channels=2, files=files, bases={0: 1, 1: 3, 2: 3}, journal='{"batch":3}'
    )


def test_a_chain_begins_at_its_base_and_ends_at_its_head(small):
    assert [f.name for f in small.chain(0)] == ["a", "b", "d"]
    assert [f.name for f in small.chain(1)] == ["c"]
    assert small.chain(99) == []
    assert small.heads == {0: "d", 1: "c", 2: "c"}


def test_files_live_as_long_as_a_chain_needs_them(small):
    assert [f.name for f in live_files(small.files, small.bases)] == ["a", "b", "c", "d"]
    assert [f.name for f in live_files(small.files, {0: 3, 1: 3, 2: 3})] == ["c", "d"]
    assert [f.name for f in live_files(small.files, {0: 2, 1: 3, 2: 3})] == ["b", "c", "d"]


def test_cut_short_at_any_length(small):
    data = small.encode()
    for size in range(len(data)):
        with pytest.raises(CorruptState, match=r"here .*restore it from a backup of the checkpoint"):
            Manifest.decode(data[:size], "here")


def test_any_byte_changed(small):
    data = small.encode()
    for at in range(len(data)):
        for flip in (1, 2, 8, 32, 128, 255):
            damaged = bytearray(data)
            damaged[at] ^= flip
            if (
                at < data.index(b"\n") and damaged.split() == data.split()
            ):  # another space between the first words
                assert Manifest.decode(bytes(damaged), "here") == small
                continue
            with pytest.raises((CorruptState, NewerFormat), match="here"):
                Manifest.decode(bytes(damaged), "here")


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"headgate", b"headgate 0 x\n", b"headgate \xc2\xb2 x\n", b"{}", b"\xff\xfe"]
)
def test_what_is_no_commit_is_named(data):
    with pytest.raises(CorruptState, match="here is not a headgate commit"):
        Manifest.decode(data, "here")


def test_a_newer_format_is_named_whatever_comes_after():
    text = "another shape"
    data = f"headgate {FORMAT + 1} {xxhash.xxh3_64_hexdigest(text.encode())}\n{text}".encode()
    with pytest.raises(NewerFormat, match=f"here has format {FORMAT + 1}, .* upgrade headgate"):
        Manifest.decode(data, "here")
