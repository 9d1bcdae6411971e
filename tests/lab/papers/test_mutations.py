"""Every claim's row fails when its mechanism is broken: the table is in `mutations`."""

import pytest
from tests.lab.papers.mutations import FAST, Mutation


def broken(mutation: Mutation, monkeypatch) -> dict[str, bool | None]:
    mutation.patch(monkeypatch)
    return {name: claim.ok for name, claim in mutation.claims().items()}


@pytest.mark.parametrize("mutation", FAST, ids=lambda mutation: mutation.says)
def test_a_broken_mechanism_is_seen(mutation, monkeypatch) -> None:
    sound = mutation.claims()
    assert [name for name in mutation.rows if sound[name].ok is not True] == []
    found = broken(mutation, monkeypatch)
    assert [name for name in mutation.rows if found[name] is not False] == []
