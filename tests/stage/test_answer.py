"""A task's answer: what is sent as JSON comes back as the same value."""

import json

from hypothesis import given
from hypothesis import strategies as st

from headgate.flow.backlog import Backlog, BacklogEntry
from headgate.stage.answer import Answer, KeyCount, TouchedBin
from headgate.storage.manifest import Written

numbers = st.integers(0, 2**53)
times = st.floats(0, 1e9)
names = st.text(max_size=6)
bins = st.lists(numbers, max_size=3).map(tuple)
files = st.none() | st.builds(Written, names, numbers, names)
waiting = st.lists(st.builds(BacklogEntry, names, numbers, numbers, numbers), max_size=2).map(tuple)
answers = st.builds(
    Answer,
    channel=numbers,
    executor=names,
    came=numbers,
    rows=numbers,
    out_rows=numbers,
    busy_ms=times,
    idle_ms=times,
    read_ms=times,
    rebuilt_bins=numbers,
    state_file=names,
    changed=bins,
    snapshots=bins,
    state_bytes=numbers,
    delta_bytes=numbers,
    output=files,
    aside=files,
    seen=st.dictionaries(names, numbers, max_size=2),
    taken=waiting.map(Backlog),
    waiting=waiting.map(Backlog),
    arrived=st.dictionaries(numbers, numbers, max_size=3),
    touched=st.lists(
        st.builds(TouchedBin, numbers, numbers, numbers, numbers, st.integers(-(2**62), 2**62)), max_size=3
    ).map(tuple),
    pieces=st.binary(max_size=9),
    frequent=st.lists(st.builds(KeyCount, st.integers(-(2**63), 2**63 - 1), numbers, names), max_size=2).map(
        tuple
    ),
)


@given(answers)
def test_there_and_back(answer: Answer) -> None:
    assert Answer.from_json(json.loads(json.dumps(answer.to_json()))) == answer
