"""The explanation of a placement, and that the placement follows it."""

from headgate.hosting import Host


def test_least_cost_joins_what_it_shares_and_ties_go_to_the_least_filled() -> None:
    host = Host({"a": 3.0, "b": 1.0, "c": 1.0}, servers=3, rule="least-cost")
    assert [host.place(q, [s]).server for q, s in (("1", "a"), ("2", "b"), ("3", "c"))] == [0, 1, 2]
    both = host.explain(["a", "b"])
    assert (both.server, both.options[0].added_traffic, both.options[0].missing) == (0, 1.0, ("b",))
    assert host.place("4", ["a", "b"]).added_traffic == 1.0
    assert "server 0 adds 1, the best score" in str(both)
    assert host.explain(["b"]).server == 1, "of two servers that have b, the one with less"
