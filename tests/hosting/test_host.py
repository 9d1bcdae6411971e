"""The host by name: streams, lost servers, capacity, adoption after a restart, and bad input."""

import math

import pytest

import headgate as hg
from headgate.errors import ConfigError, NoRoom
from headgate.hosting import Balance, Host


def test_it_is_reachable_from_the_package() -> None:
    assert hg.hosting.Host is Host


def test_the_last_query_out_closes_the_stream() -> None:
    host = Host({"a": 2.0}, servers=2, rule="least-cost")
    host.place("1", ["a"])
    host.place("2", ["a"])
    assert host.remove("1") == 0.0
    assert host.streams() == {("a", 0): 1}
    assert host.remove("2") == 2.0
    assert host.streams() == {}


def test_a_lost_server_gives_its_queries_to_the_others_in_the_order_they_came() -> None:
    host = Host(dict.fromkeys("abc", 1.0), servers=3)
    for q, s in enumerate("abcabc"):
        host.place(str(q), [s])
    lost = host.server_of("0")
    told = host.lose_server(lost)
    assert [d.query for d in told] == ["0", "3"]
    assert lost not in host.servers
    assert host.add_server(2.0) == 3
    with pytest.raises(ConfigError, match=f"there is no server {lost}"):
        host.lose_server(lost)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Host({"a": -1.0}, servers=2), "cannot be negative"),
        (lambda: Host({"a": math.nan}, servers=2), "finite number"),
        (lambda: Host({"a": "fast"}, servers=2), "finite number"),  # type: ignore[dict-item]
        (lambda: Host({"a": 1.0}, servers=0), "at least one"),
        (lambda: Host({"a": 1.0}, servers=[1.0, 0.0]), "above 0"),
        (lambda: Host({"a": 1.0}, servers=2, rule="least-costs"), "did you mean 'least-cost'"),
        (lambda: Host({"a": 1.0}, servers=2, rule="on-rand"), "give draw="),
        (lambda: Host({"a": 1.0}, servers=2).place("q", "a b"), "give a list of names"),
        (lambda: Host({"a": 1.0}, servers=2).place("q", []), "no source"),
        (lambda: Host({"a": 1.0}, servers=2).place("q", ["a"], cost=0), "costs something"),
        (lambda: Host({"a": 1.0}, servers=2).remove("q"), "not hosted"),
        (lambda: Host({"a": 1.0}, servers=1).lose_server(0), "the last one"),
        (lambda: Host({"a": 1.0}, servers=1).add_source("a", 2.0), "there already"),
    ],
)
def test_bad_input_raises_an_error_that_says_why(make, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()


def test_capacity_is_a_wall_and_what_hits_it_changes_nothing() -> None:
    host = Host({"a": 1.0}, servers=2, balance=Balance(capacity=2))
    for q in range(4):
        host.place(str(q), ["a"])
    before = (host.status(), host.streams())
    with pytest.raises(NoRoom, match=r"query '4' of cost 1 fits no server: 2 servers of capacity 2 hold 4"):
        host.place("4", ["a"])
    with pytest.raises(NoRoom, match="server 0 stays"):
        host.lose_server(0)
    assert (host.status(), host.streams()) == before
    host.add_server()
    assert host.place("4", ["a"]).server == 2


def test_a_placement_can_be_taken_up_as_it_was() -> None:
    sources = {"road": 2.0, "rain": 1.0, "news": 0.5}
    host = Host(sources, servers=3)
    wanted = {f"q{i}": [["road"], ["rain", "news"], ["road", "rain"]][i % 3] for i in range(30)}
    for name, needs in wanted.items():
        host.place(name, needs)
    for name in list(wanted)[::4]:
        host.remove(name)
    again = Host(sources, servers=3)
    for name in host.queries:
        again.adopt(name, wanted[name], host.server_of(name))
    assert {n: again.server_of(n) for n in again.queries} == {n: host.server_of(n) for n in host.queries}
    assert again.status().traffic == host.status().traffic
    assert again.status().loads == host.status().loads
    assert again.streams() == host.streams()
    assert again.place("next", ["news"]).server == host.place("next", ["news"]).server
    with pytest.raises(ConfigError, match="hosted already"):
        again.adopt("next", ["news"], 0)
    with pytest.raises(ConfigError, match="no server 9"):
        again.adopt("other", ["news"], 9)


def test_a_host_without_queries_has_nothing_to_repair() -> None:
    host = Host(sources={"a": 1.0}, servers=2)
    assert host.repair(8, 32) == []
