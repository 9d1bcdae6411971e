"""The rules: what RareFirst does where LeastCost does otherwise."""

import pytest

from headgate.hosting import Balance, Host


@pytest.mark.parametrize(("rule", "goes_to"), [("rare-first", 1), ("least-cost", 0)])
def test_rare_first_puts_new_sources_where_partners_are_likely(rule, goes_to) -> None:
    host = Host(dict.fromkeys("abcdexy", 1.0), servers=2, rule=rule, balance=Balance(absolute=0.5))
    placed = [host.place(str(i), [*reads]).server for i, reads in enumerate(["ab", "cde", "ab", "cde"])]
    assert placed == [0, 1, 0, 1]
    assert host.explain(["x", "y"]).server == host.place("new", ["x", "y"]).server == goes_to
