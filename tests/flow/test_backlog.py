"""The backlog as values."""

import json

from hypothesis import given
from hypothesis import strategies as st

from headgate.flow.backlog import Backlog, BacklogEntry

ENTRIES = st.lists(
    st.builds(BacklogEntry, st.text(max_size=3), st.integers(0, 5), st.integers(1, 9), st.integers(1, 99)),
    unique=True,
)


@given(ENTRIES, ENTRIES, st.data())
def test_taking_and_adding_keep_the_order_of_every_bin(first, added, data) -> None:
    backlog = Backlog(tuple(first))
    taken = data.draw(st.lists(st.sampled_from(first), unique=True)) if first else []
    after = backlog.after(taken, added)
    assert list(after) == [entry for entry in first if entry not in taken] + added
    assert Backlog.from_json(json.loads(json.dumps(after.to_json()))) == after
    assert after.files == {entry.file for entry in after}
    assert sum(after.rows.values()) == sum(entry.rows for entry in after)
    assert after.of([3]) == tuple(entry for entry in after if entry.bin == 3)
