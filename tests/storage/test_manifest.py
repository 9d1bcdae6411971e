"""The commit record: a value that survives the way through bytes, and says which files make up a bin."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.flow.backlog import Backlog, BacklogEntry
from headgate.flow.flow_state import FlowState
from headgate.flow.rotation import Rotation
from headgate.flow.row_ranges import RowRange
from headgate.operators.event_time import Clock
from headgate.routing.table import Table
from headgate.storage.manifest import Delivery, Manifest, Written
from headgate.storage.state_index import StateFile, StateIndex, live_files

numbers = st.integers(0, 2**53)
names = st.text(max_size=8)
written = st.lists(st.builds(Written, names, numbers, names), max_size=3).map(tuple)
files = st.builds(StateFile, names, numbers, st.frozensets(st.integers(0, 300), max_size=9))
mappings = st.dictionaries(st.integers(0, 300), numbers, max_size=5)
native = st.dictionaries(names, st.none() | numbers | names | st.lists(numbers, max_size=3), max_size=3)
times = st.integers(-(2**60), 2**60)
states = st.builds(
    StateIndex,
    files=st.lists(files, max_size=4).map(tuple),
    bases=mappings,
    sizes=mappings,
    keys=mappings,
    due=st.dictionaries(st.integers(0, 300), times, max_size=5),
    credit=numbers,
    earned=numbers,
)
deliveries = st.builds(
    Delivery,
    number=numbers,
    origin=st.none() | names,
    columns=names,
    rows=numbers,
    rows_at_gate=st.none() | numbers,
    rest=st.lists(st.builds(RowRange, numbers, numbers, numbers), max_size=2).map(tuple),
    rest_in=names,
    extra=st.booleans(),
)
clocks = st.builds(
    Clock, st.lists(times, max_size=2).map(tuple), times, times, st.dictionaries(names, numbers, max_size=2)
)
queues = st.lists(st.integers(0, 300), max_size=3).map(tuple)
flows = st.builds(
    FlowState,
    rotation=st.dictionaries(numbers, st.builds(Rotation, queues, queues, st.floats(0)), max_size=2),
    in_flight=queues,
    idle=queues,
    wall_ms=st.floats(0, 1e9),
    read_ms=st.lists(st.floats(0, 1e9), max_size=2).map(tuple),
    executors=st.lists(names, max_size=2).map(tuple),
)
manifests = st.builds(
    Manifest,
    batch=numbers,
    run=names,
    channels=numbers,
    delivery=deliveries,
    table=st.builds(Table.uniform, st.integers(5, 9), st.integers(1, 5)),
    state=states,
    clock=clocks,
    held_clock=st.none() | clocks,
    backlog=st.lists(st.builds(BacklogEntry, names, numbers, numbers, numbers), max_size=3)
    .map(tuple)
    .map(Backlog),
    flow=flows,
    refreshed=st.none() | numbers,
    aside=written,
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
    return StateIndex(files=files, bases={0: 1, 1: 3, 2: 3})


def test_a_chain_begins_at_its_base_and_ends_at_its_head(small) -> None:
    assert [f.name for f in small.chain(0)] == ["a", "b", "d"]
    assert [f.name for f in small.chain(1)] == ["c"]
    assert small.chain(99) == []
    assert small.heads == {0: "d", 1: "c", 2: "c"}


def test_files_live_as_long_as_a_chain_needs_them(small) -> None:
    assert [f.name for f in live_files(small.files, small.bases)] == ["a", "b", "c", "d"]
    assert [f.name for f in live_files(small.files, {0: 3, 1: 3, 2: 3})] == ["c", "d"]
    assert [f.name for f in live_files(small.files, {0: 2, 1: 3, 2: 3})] == ["b", "c", "d"]
