"""Repair: what its moves save, and that the readers of a rare source move together."""

from headgate.hosting import Host


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
