"""Whether a stage and a table outside belong together: every case of three numbers."""

import itertools
from typing import Any

import pytest

from headgate.errors import CheckpointMismatch
from headgate.storage.parquet_folder import Owner
from headgate.storage.published import begin, pending

OWNER = Owner("4be35ea6", "file:///checkpoints/users")
NUMBERS = (None, -1, 0, 1, 2, 3)


def began(recorded, earlier, committed, first):
    try:
        return begin("t", OWNER, recorded=recorded, earlier=earlier, committed=committed, first=first)
    except CheckpointMismatch:
        return "refused"


def test_a_stage_that_begins_writes_each_batch_once_and_none_is_left_out() -> None:
    """After `begin` the table has all batches but, at most, the last committed one, which is published again."""
    for recorded, earlier, committed, first in itertools.product(
        NUMBERS, NUMBERS, (None, 0, 1, 2, 3), (None, 0, 1, 2, 3)
    ):
        newest = -1 if committed is None else committed
        got = began(recorded, earlier, committed, first)
        if got == "refused":
            continue
        has: Any = recorded if got is None else got
        assert newest - 1 <= has <= newest
        if recorded is None and first is None:
            assert (earlier is None or earlier < 0) and newest == -1  # noqa: PT018


@pytest.mark.parametrize(
    ("recorded", "earlier", "committed", "first", "expected"),
    [
        (None, None, None, None, -1),
        (None, -1, None, None, -1),  # an earlier query that never published anything
        (None, 4, None, None, "refused"),
        (None, 4, None, 0, -1),
        (None, None, 2, None, "refused"),
        (None, None, 2, 3, 2),
        (None, None, 2, 2, 1),
        (None, None, 2, 1, "refused"),
        (2, None, 2, None, None),
        (1, None, 2, None, None),
        (0, None, 2, None, "refused"),
        (3, None, 2, None, "refused"),
    ],
)
def test_cases(recorded, earlier, committed, first, expected) -> None:
    assert began(recorded, earlier, committed, first) == expected


def test_a_batch_is_pending_until_it_is_recorded() -> None:
    assert pending("t", OWNER, 2, 1)
    assert not pending("t", OWNER, 2, 2)
    assert not pending("t", OWNER, 2, 5)
    with pytest.raises(CheckpointMismatch, match="has no batch of 4be35ea6"):
        pending("t", OWNER, 2, -1)
    with pytest.raises(CheckpointMismatch, match="does not know the stage"):
        pending("t", OWNER, 2, None)
