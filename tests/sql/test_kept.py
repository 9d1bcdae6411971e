"""What is kept between batches ends in few pieces, and outlives what is over for others."""

import numpy as np
import pyarrow as pa
from tests.sql.world import NAMES, SECOND, Server, at_seconds, batches_of, oracle, rows_of


def test_many_panes_and_many_batches_end_in_few_pieces() -> None:
    rng = np.random.default_rng(1)
    rows = rows_of(rng, 400, seconds=600)
    server = Server()
    text = "SELECT count(*), sum(x) FROM alpha GROUP BY TUMBLE(time, INTERVAL '1 hour')"
    server.add(1, text)
    for batch in batches_of(rows, list(range(0, 400, 5))):
        server.feed(batch)
    (state,) = server.states.values()
    assert sum(map(len, state.values())) <= 20
    far = rows.slice(0, 3).set_column(1, "time", pa.array([7200 * SECOND] * 3, pa.timestamp("us")))
    far = far.set_column(0, "source", pa.array([0, 1, 2], pa.int32()))
    server.feed(far)
    everything = pa.concat_tables([rows, far])
    window = ("TUMBLE(time, INTERVAL '1 hour')", 3600, 3600)
    assert server.answers()[1] == oracle(text, window, everything, 0, server.mark(0))


def test_what_is_open_for_one_source_outlives_what_is_over_for_another() -> None:
    """Many panes in one batch share a label, and a later batch may begin a label in the middle of it."""
    first = at_seconds(*((0, t) for t in range(0, 100, 10)), *((1, t) for t in range(1000, 1100, 10)))
    second = at_seconds((2, 35), (2, 45), (1, 1110))
    third = at_seconds((0, 120), (2, 120), (1, 1130))
    text = "SELECT count(*), window_start FROM {} GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
    server = Server()
    for source, name in enumerate(NAMES):
        server.add(source, text.format(name))
    for batch in (first, second, third):
        server.feed(batch)
    rows = pa.concat_tables([first, second, third])
    window = ("TUMBLE(time, INTERVAL '10 seconds')", 10, 10)
    for source, name in enumerate(NAMES):
        assert server.answers()[source] == oracle(
            text.format(name), window, rows, source, server.mark(source)
        )
