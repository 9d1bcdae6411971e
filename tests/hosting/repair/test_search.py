"""Repair: what its moves save, and that the readers of a rare source move together."""

import numpy as np
import pytest

from headgate.hosting import Balance, Host


def test_repair_says_what_each_move_buys() -> None:
    host = Host({"a": 5.0, "b": 1.0}, servers=2, rule="least-source")
    host.place("1", ["a"])
    host.place("2", ["b"])
    host.place("3", ["a", "b"])
    before = host.status().traffic
    moves = host.repair(5)
    assert sum(m.saved_traffic for m in moves) == before - host.status().traffic
    assert moves
    assert all(m.saved_traffic >= 0 for m in moves)
    assert host.repair(5) == []


def test_the_readers_of_a_rare_source_move_together() -> None:
    host = Host({"hub": 1.0, "other": 1.0, "rare": 1.0}, servers=2, rule="least-source")
    for query, sources in {"1": "hub rare", "a": "hub other", "2": "hub rare", "b": "hub other"}.items():
        host.place(query, sources.split())
    assert host.server_of("1") == host.server_of("2") != host.server_of("a") == host.server_of("b")
    assert host.repair(1) == [], "alone a query would leave a stream behind and open another"
    (move,) = host.repair(2)
    assert (len(move.queries), move.saved_traffic) == (2, 1.0)


def test_queries_are_exchanged_where_servers_are_full() -> None:
    host = Host({"a": 1.0, "b": 1.0}, servers=2, balance=Balance(relative=0.0, absolute=0.0))
    host.adopt_many(
        [(f"{s}{i}", [s], 1.0) for i in range(3) for s in "ab"], [0, 1, 0, 1, 1, 0]
    )  # a, a, b are on server 0, and b, b, a on server 1: both are full
    (move,) = host.repair(2)
    assert (len(move.queries), len(move.exchanged), move.saved_traffic) == (1, 1, 2.0)
    assert host.status().loads == {0: 3.0, 1: 3.0}
    assert host.status().replication == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_repair_falls_silent_on_steady_input(seed) -> None:
    draw = np.random.default_rng(seed)
    host = Host(
        {f"s{i}": 10 ** draw.uniform(-3, 3) for i in range(12)}, servers=4, balance=Balance(absolute=1.0)
    )
    for query in range(60):
        host.place(str(query), [f"s{i}" for i in draw.integers(0, 12, 3)])
    traffic = host.status().traffic
    for _ in range(200):
        if not host.repair(8):
            break
        assert host.status().traffic <= traffic + 1e-9
        traffic = host.status().traffic
    assert host.repair(8) == []
