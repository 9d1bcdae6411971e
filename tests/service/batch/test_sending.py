"""Rows on their way to servers: each server gets every row of the sources that it reads, once."""

from functools import partial

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headgate.service.batch.sending import Sender, received

SCHEMA = pa.schema([("source", pa.int32()), ("l0", pa.int64()), ("v0", pa.string())])


@given(
    st.lists(st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=3), max_size=3),
    st.lists(st.sets(st.integers(0, 2)), max_size=5),
)
def test_each_server_gets_the_rows_of_its_sources_once(tasks, servers_of_source) -> None:
    """Source 5 is one that nobody knew when the batch began."""
    number, batches_of = 0, []
    sent: dict[int, list[dict[str, object]]] = {server: [] for server in range(3)}
    for task in tasks:
        batches = []
        for sources in task:
            numbers = list(range(number, number + len(sources)))
            number += len(sources)
            columns = {"l0": pa.array(numbers, pa.int64()), "source": pa.array(sources, pa.int32())}
            batches.append(pa.RecordBatch.from_pydict(columns))
            for source, row in zip(sources, numbers, strict=True):
                for server in servers_of_source[source] if source < len(servers_of_source) else ():
                    sent[server].append({"source": source, "l0": row, "v0": None})
        batches_of.append(batches)
    sender = Sender.of(
        [partial(iter, batches) for batches in batches_of], list(map(sorted, servers_of_source)), 3, SCHEMA
    )
    blobs: dict[int, list[bytes]] = {server: [] for server in range(3)}
    for task in range(max(1, len(tasks))):
        for server, blob in sender.sent(task):
            blobs[server].append(blob)
    for server in range(3):
        rows = list(received(blobs[server]))
        assert all(batch.schema == SCHEMA for batch in rows)
        assert [row for batch in rows for row in batch.to_pylist()] == sent[server]
