"""The commit record: a value that survives the way through bytes, and says which files make up a bin."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.storage.manifest import Manifest, StateFile, Written, live_files

numbers = st.integers(0, 2**53)
names = st.text(max_size=8)
written = st.lists(st.builds(Written, names, numbers, names), max_size=3).map(tuple)
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
    aside=written,
    origin=st.none() | names,
    credit=numbers,
    table=native,
    loop=native,
    output=written,
    journal=names,
)


@given(manifests)
def test_there_and_back(manifest) -> None:
    assert Manifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest


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


def test_a_chain_begins_at_its_base_and_ends_at_its_head(small) -> None:
    assert [f.name for f in small.chain(0)] == ["a", "b", "d"]
    assert [f.name for f in small.chain(1)] == ["c"]
    assert small.chain(99) == []
    assert small.heads == {0: "d", 1: "c", 2: "c"}


def test_files_live_as_long_as_a_chain_needs_them(small) -> None:
    assert [f.name for f in live_files(small.files, small.bases)] == ["a", "b", "c", "d"]
    assert [f.name for f in live_files(small.files, {0: 3, 1: 3, 2: 3})] == ["c", "d"]
    assert [f.name for f in live_files(small.files, {0: 2, 1: 3, 2: 3})] == ["b", "c", "d"]
