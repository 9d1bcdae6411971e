"""The watermarks of sources: rows that are late, and clocks that are far ahead."""

from tests.sql.world import SECOND, Server, at_seconds


def test_rows_later_than_the_delay_are_left_out_and_change_no_closed_window() -> None:
    server = Server()
    server.add(1, "SELECT count(*), window_start FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')")

    server.feed(at_seconds((0, 1), (0, 2), (0, 16)))
    server.feed(at_seconds((0, 3), (0, 12), (0, 30)))
    server.feed(at_seconds((0, 50)))
    assert sorted(row["o0"] for table in server.results for row in table.to_pylist()) == [1, 2, 2]


def test_a_stray_clock_closes_nothing() -> None:
    """A row from far ahead has no say in the watermark; when most rows are there, time has moved."""
    text = "SELECT count(*), window_start FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
    year = 365 * 86_400
    server = Server()
    server.add(1, text)
    server.feed(at_seconds((0, 1), (0, 12), (0, year)))
    server.feed(at_seconds((0, 13), (0, 2 * year), (0, 26)))
    server.feed(at_seconds((0, 27)))
    assert server.mark(0) == (27 - 5) * SECOND
    assert sorted(row["o0"] for table in server.results for row in table.to_pylist()) == [1, 2]
    server.feed(at_seconds((0, 3 * year), (0, 3 * year + 20)))
    assert server.mark(0) == (3 * year + 20 - 5) * SECOND
