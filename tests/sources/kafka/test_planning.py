"""Which offsets a batch takes, and where a query begins: no broker is needed to say."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import ConfigError, OffsetsLost
from headgate.sources.kafka.planning import Held, Span, checked_positions, cut, taken
from headgate.sources.kafka.start import EARLIEST, LATEST, Start

PARTITIONS = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3))
SIZES = st.dictionaries(PARTITIONS, st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=6)


@given(SIZES, st.integers(1, 10**6), st.integers(1, 8))
def test_a_batch_takes_what_follows_and_no_more_than_it_may(sizes, rows, tasks) -> None:
    positions = {p: at for p, (at, _) in sizes.items()}
    held = {p: Held(0, at + has) for p, (at, has) in sizes.items()}
    waiting = sum(has for _, has in sizes.values())
    spans, more = taken(positions, held, rows)
    assert all(span.first == positions[span.topic, span.partition] for span in spans)
    assert all(span.size > 0 and span.last <= held[span.topic, span.partition].end for span in spans)
    size = sum(span.size for span in spans)
    assert size <= rows + len(spans)  # each gives one at least
    assert more == (size < waiting)
    assert {(s.topic, s.partition) for s in spans} == {p for p, (_, has) in sizes.items() if has}
    pieces = cut(spans, tasks)
    assert len(pieces) <= tasks + len(spans)
    joined: list[Span] = []
    for piece in pieces:
        if joined and (joined[-1].topic, joined[-1].partition) == (piece.topic, piece.partition):
            assert joined[-1].last == piece.first
            joined[-1] = Span(piece.topic, piece.partition, joined[-1].first, piece.last)
        else:
            joined.append(piece)
    assert joined == spans


def test_a_new_partition_begins_with_its_first_offset() -> None:
    found, lost = checked_positions(
        {("t", 0): 4}, {("t", 0): Held(0, 9), ("t", 1): Held(3, 5)}, earliest=False
    )
    assert (found, lost) == ({("t", 0): 4, ("t", 1): 3}, [])


@pytest.mark.parametrize(
    ("at", "now", "said"),
    [
        (
            4,
            Held(5, 9),
            "offset 4 of partition 0 of t, and the first that is kept is 5: 1 offsets were deleted",
        ),
        (10, Held(0, 9), "offset 10 of partition 0 of t, which ends at 9: the topic was created anew"),
    ],
    ids=["one offset expired", "the topic is shorter than what was read"],
)
def test_lost_offsets_are_named_or_skipped(at, now, said) -> None:
    with pytest.raises(OffsetsLost, match=said) as caught:
        checked_positions({("t", 0): at}, {("t", 0): now}, earliest=False)
    assert "on_lost='earliest'" in str(caught.value)
    found, lost = checked_positions({("t", 0): at}, {("t", 0): now}, earliest=True)
    assert found == {("t", 0): now.first}
    assert said in lost[0]


@pytest.mark.parametrize("at", [5, 9], ids=["the first offset", "the end"])
def test_a_position_at_an_edge_is_fine(at) -> None:
    assert checked_positions({("t", 0): at}, {("t", 0): Held(5, 9)}, earliest=False) == ({("t", 0): at}, [])


def test_starts() -> None:
    known = {("t", 0): {EARLIEST: 2, LATEST: 9, 5000: 4}, ("t", 1): {EARLIEST: 0, LATEST: 3, 5000: 3}}
    assert Start.of("earliest").positions(known) == {("t", 0): 2, ("t", 1): 0}
    assert Start.of("latest").positions(known) == {("t", 0): 9, ("t", 1): 3}
    assert Start.of(datetime.fromtimestamp(5, UTC)).positions(known) == {("t", 0): 4, ("t", 1): 3}
    assert Start.of("1970-01-01 00:00:05").time == 5000
    assert Start.of({"t": {0: 7, 1: "latest"}}).positions(known) == {("t", 0): 7, ("t", 1): 3}


@pytest.mark.parametrize(
    "start", ["soon", 7, None, {}, {"t": 3}, {"t": {0: -3}}, {"t": {0: "first"}}, {"t": {True: 1}}]
)
def test_a_start_that_says_nothing_is_refused(start) -> None:
    with pytest.raises(ConfigError, match="write 'earliest', 'latest', a time"):
        Start.of(start)


def test_offsets_name_all_partitions_and_no_others() -> None:
    known = {("t", 0): {EARLIEST: 0, LATEST: 9}, ("t", 1): {EARLIEST: 0, LATEST: 9}}
    with pytest.raises(ConfigError, match="no offset for partition 1 of t"):
        Start.of({"t": {0: 1}}).positions(known)
    with pytest.raises(ConfigError, match="names partition 2 of t"):
        Start.of({"t": {0: 1, 1: 1, 2: 1}}).positions(known)
