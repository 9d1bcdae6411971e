"""The host by name: the paper's examples, bad input, and what it says of its decisions."""

import math

import pytest

import headgate as hg
from headgate.errors import ConfigError, NoRoom
from headgate.hosting import Balance, Host, Repair
from headgate.hosting.balance import enough_queries, largest_absolute
from headgate_lab.papers.mice.units import unit_claims

EXACT = {claim.id: claim for claim in unit_claims()}


@pytest.mark.parametrize("number", range(19, 26))
def test_exact_row(number: int) -> None:
    assert EXACT[f"MX-{number}"].ok, EXACT[f"MX-{number}"]


def test_it_is_reachable_from_the_package() -> None:
    assert hg.hosting.Host is Host


def test_least_cost_joins_what_it_shares_and_ties_go_to_the_least_filled() -> None:
    host = Host({"a": 3.0, "b": 1.0, "c": 1.0}, servers=3, rule="least-cost")
    assert [host.place(q, [s]).server for q, s in (("1", "a"), ("2", "b"), ("3", "c"))] == [0, 1, 2]
    both = host.explain(["a", "b"])
    assert (both.server, both.options[0].added_traffic, both.options[0].missing) == (0, 1.0, ("b",))
    assert host.place("4", ["a", "b"]).added_traffic == 1.0
    assert "server 0 adds 1, the best score" in str(both)
    assert host.explain(["b"]).server == 1, "of two servers that have b, the one with less"


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


def test_repair_says_what_each_move_buys() -> None:
    host = Host({"a": 5.0, "b": 1.0}, servers=2, rule="least-source")
    host.place("1", ["a"])
    host.place("2", ["b"])
    host.place("3", ["a", "b"])
    before = host.standing().traffic
    moves = host.repair(5)
    assert sum(m.saved_traffic for m in moves) == before - host.standing().traffic
    assert moves
    assert all(m.saved_traffic >= 0 for m in moves)
    assert host.repair(5) == []


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
        (lambda: Balance(relative=-0.1), "not negative"),
        (lambda: Repair(moves=-1), "0 or more"),
        (lambda: Host({"a": 1.0}, servers=2).place("q", "a b"), "give a list of names"),
        (lambda: Host({"a": 1.0}, servers=2).place("q", []), "no source"),
        (lambda: Host({"a": 1.0}, servers=2).place("q", ["a"], cost=0), "costs something"),
        (lambda: Host({"a": 1.0}, servers=2).remove("q"), "not hosted"),
        (lambda: Host({"a": 1.0}, servers=1).lose_server(0), "the last one"),
        (lambda: Host({"a": 1.0}, servers=1).add_source("a", 2.0), "there already"),
    ],
)
def test_bad_input_is_refused_in_words(make, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()


def test_capacity_is_a_wall_and_what_hits_it_changes_nothing() -> None:
    host = Host({"a": 1.0}, servers=2, balance=Balance(capacity=2))
    for q in range(4):
        host.place(str(q), ["a"])
    before = (host.standing(), host.streams())
    with pytest.raises(NoRoom, match=r"query '4' of cost 1 fits no server: 2 servers of capacity 2 hold 4"):
        host.place("4", ["a"])
    with pytest.raises(NoRoom, match="server 0 stays"):
        host.lose_server(0)
    assert (host.standing(), host.streams()) == before
    host.add_server()
    assert host.place("4", ["a"]).server == 2


def test_types_that_nobody_has_are_forgotten() -> None:
    host = Host({f"s{i}": 1.0 for i in range(60)}, servers=3, rule="least-qt")
    host.place("stays", ["s0", "s1"])
    for i in range(3000):
        host.place("passes", {f"s{i % 60}", f"s{(i * 7 + i // 60) % 60}"})
        host.remove("passes")
    assert len(host._roster.types) < 1500
    assert host._books.server_of.shape[0] < 10
    here = next(o for o in host.explain(["s0", "s1"]).options if o.server == host.server_of("stays"))
    assert here.score == 0.0, "it has one type, and that is this one"


def test_how_alpha_is_chosen() -> None:
    assert largest_absolute(100, 0.05, 0.01) == pytest.approx(4605, abs=1)
    assert enough_queries(100, 0.05, 0.01, union=True) > enough_queries(100, 0.05, 0.01)


def test_the_readers_of_a_rare_source_move_together() -> None:
    host = Host({"hub": 1.0, "other": 1.0, "rare": 1.0}, servers=2, rule="least-source")
    for query, sources in {"1": "hub rare", "a": "hub other", "2": "hub rare", "b": "hub other"}.items():
        host.place(query, sources.split())
    assert host.server_of("1") == host.server_of("2") != host.server_of("a") == host.server_of("b")
    assert host.repair(1) == [], "alone a query would leave a stream behind and open another"
    (move,) = host.repair(2)
    assert (len(move.queries), move.saved_traffic) == (2, 1.0)


@pytest.mark.parametrize(("rule", "goes_to"), [("rare-first", 1), ("least-cost", 0)])
def test_rare_first_puts_new_sources_where_partners_are_likely(rule, goes_to) -> None:
    host = Host(dict.fromkeys("abcdexy", 1.0), servers=2, rule=rule, balance=Balance(absolute=0.5))
    placed = [host.place(str(i), [*reads]).server for i, reads in enumerate(["ab", "cde", "ab", "cde"])]
    assert placed == [0, 1, 0, 1]
    assert host.explain(["x", "y"]).server == host.place("new", ["x", "y"]).server == goes_to


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
    assert again.standing().traffic == host.standing().traffic
    assert again.standing().loads == host.standing().loads
    assert again.streams() == host.streams()
    assert again.place("next", ["news"]).server == host.place("next", ["news"]).server
    with pytest.raises(ConfigError, match="hosted already"):
        again.adopt("next", ["news"], 0)
    with pytest.raises(ConfigError, match="no server 9"):
        again.adopt("other", ["news"], 9)
