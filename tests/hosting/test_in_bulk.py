"""Many queries at once are hosted as one after the other."""

import numpy as np
import pytest

from headgate.errors import ConfigError, NoRoom
from headgate.hosting import NO_REPAIR, Balance, Host

SOURCES = {f"s{i}": 1.0 + i % 3 for i in range(12)}


def asked(rng, count, first=0):
    return [
        (
            f"q{first + i}",
            [f"s{s}" for s in rng.choice(12, rng.integers(1, 4), replace=False)],
            1.0 + rng.integers(3),
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("rule", ["least-cost", "rare-first", "least-qt", "on-rand"])
def test_placing_many_is_placing_one_after_the_other(rule) -> None:
    rng = np.random.default_rng(3)
    queries = asked(rng, 120)
    one, many = (
        Host(SOURCES, servers=4, rule=rule, repair=NO_REPAIR, draw=np.random.default_rng(1).random)
        for _ in range(2)
    )
    for part in (queries[:50], queries[50:]):
        expected = [one.place(*query).server for query in part]
        assert many.place_many(part) == expected
        for name, _, _ in part[::3]:
            one.remove(name)
            many.remove(name)
    assert one.status() == many.status()
    assert one.streams() == many.streams()


def test_placing_many_repairs_and_says_where_they_are_now() -> None:
    queries = asked(np.random.default_rng(3), 120)
    plain, host = Host(SOURCES, servers=4, repair=NO_REPAIR), Host(SOURCES, servers=4)
    plain.place_many(queries)
    assert host.place_many(queries) == [host.server_of(name) for name, _, _ in queries]
    assert host.status().traffic < plain.status().traffic
    assert max(host.status().loads.values()) <= host.limit_of(0) * (1 + 1e-9)


def test_adopting_many_is_adopting_one_after_the_other() -> None:
    rng = np.random.default_rng(4)
    queries, servers = asked(rng, 80), rng.integers(0, 4, 80).tolist()
    one, many = (Host(SOURCES, servers=4) for _ in range(2))
    for (name, sources, cost), server in zip(queries, servers, strict=True):
        one.adopt(name, sources, server, cost)
    many.adopt_many(queries, servers)
    assert one.status() == many.status()
    assert one.streams() == many.streams()
    assert (
        one.receivers()
        == many.receivers()
        == {name: sorted({j for (source, j) in one.streams() if source == name}) for name in SOURCES}
    )


def test_if_one_cannot_be_hosted_none_is() -> None:
    host = Host(SOURCES, servers=2)
    for wrong in [("b", ["nowhere"], 1.0), ("a", ["s1"], 1.0), ("b", ["s1"], 0.0)]:
        with pytest.raises(ConfigError):
            host.place_many([("a", ["s1"], 1.0), wrong])
        assert host.queries == ()
    with pytest.raises(ConfigError):
        host.adopt_many([("a", ["s1"], 1.0)], [7])
    small = Host(SOURCES, servers=1, balance=Balance(capacity=1.5))
    with pytest.raises(NoRoom):
        small.place_many([("a", ["s1"], 1.0), ("b", ["s1"], 1.0)])
    assert small.queries == ()


def test_many_streams_in_bulk() -> None:
    """The pool of streams is enlarged as often as it has to be."""
    host = Host({f"s{i}": 1.0 for i in range(400)}, servers=20, rule="least-source")
    host.place_many([(str(q), [f"s{q % 400}", f"s{(7 * q + 3) % 400}"], 1.0) for q in range(3000)])
    assert host.status().queries == 3000
    assert len(host.streams()) > 512
