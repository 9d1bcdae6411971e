"""The table of constants: that of the computations that are there now, at the cost of what changed. Idle queries cost nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.service.local import Local
from tests.sql.world import KINDS, PREPARER, rows_of

from headgate.service import hosted_constants
from headgate.service.hosted_constants import Computation, HostedConstants, table_of

TEMPLATE = PREPARER.prepare("SELECT x FROM alpha WHERE n > 1 AND city = 'ash'", KINDS).template


def computation(number, value=1):
    return Computation(number, 0, (number % 3,), (value, "ash"), 0, 0, 0, 0)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "remove", "refresh", "build"]), st.integers(0, 8)), max_size=40
    )
)
def test_the_table_is_that_of_the_computations_that_are_there(acts) -> None:
    hosted, there, owners = HostedConstants(TEMPLATE), dict[int, Computation](), dict[int, int]()
    for act, number in [*acts, ("build", 0)]:
        if act == "add" and number not in there:
            there[number] = computation(number, len(there))
            owners[number] = number
            hosted.add(there[number])
        elif act == "remove" and number in there:
            del there[number]
            hosted.remove(number)
        elif act == "refresh" and number in there:
            owners[number] += 100
            hosted.refresh(number)
        elif act == "build":
            assert hosted.build(owners.__getitem__) == {}
            expected = table_of(TEMPLATE, list(there.values()), owners.__getitem__)
            assert hosted.table.sort_by("id").equals(expected.sort_by("id"))
            assert len(hosted) == len(there)


@pytest.fixture
def visited(monkeypatch):
    """How many computations were made rows of a table."""
    counts = []
    build = hosted_constants.table_of

    def counted(template, hosted, *owner_of):
        counts.append(len(hosted))
        return build(template, hosted, *owner_of)

    monkeypatch.setattr(hosted_constants, "table_of", counted)
    return counts


class Untouched(dict):
    """A dictionary that may be looked up, and not walked over."""

    def _walked(self):
        raise AssertionError("all of them were visited")

    values = items = keys = __iter__ = _walked


def test_one_change_among_many_queries_costs_one(tmp_path, visited) -> None:
    local = Local(tmp_path, servers=2)
    numbers = local.add(*(f"SELECT x FROM alpha WHERE n > {i}" for i in range(400)))
    rows = rows_of(np.random.default_rng(1), 20)
    local.feed(rows)
    service = local.service
    service.computations.by_id = Untouched(service.computations.by_id)
    service.queries.by_id = Untouched(service.queries.by_id)
    visited.clear()
    local.feed(rows)
    assert sum(visited) == 0, "nothing has changed"
    service.remove(local.ann, numbers[7])
    local.feed(rows)
    assert sum(visited) == 0
    local.add("SELECT x FROM beta WHERE n > 1")
    local.feed(rows)
    assert sum(visited) == 1
    assert [q.id for q in service.list_queries(local.ann, after=5, limit=3)[0]] == [6, 8, 9]
    for _ in range(3):
        service.queries.starts_to_forget(100)
    local.service.close()


def test_who_pays_changes_with_the_first_of_the_queries_that_share(tmp_path) -> None:
    local = Local(tmp_path, servers=1)
    bob = local.service.authenticate(local.service.add_tenant("bob", admin=True))
    text = "SELECT x FROM alpha WHERE n > 1"
    (first,) = local.add(text)
    local.service.register(bob, [(text, "")])
    owner = lambda: local.service.computations.snapshot(9).constants[0, 0][1].column("owner").to_pylist()  # noqa: E731
    before = owner()
    local.service.remove(local.ann, first)
    assert owner() != before
    local.service.close()
