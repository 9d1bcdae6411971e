"""Tenants: each sees and changes only what is its own."""

import pytest

from headgate.errors import (
    AccessDenied,
    NotFound,
)


def test_tenants_see_their_own(local) -> None:
    (number,) = local.add("SELECT x FROM alpha")
    bob = local.service.authenticate(local.service.add_tenant("bob"))

    def push() -> None:
        local.service.push_events(bob, "alpha", [{"time": 1}])

    for act in (lambda: local.service.read(bob, number), lambda: local.service.remove(bob, number), push):
        with pytest.raises(NotFound):
            act()
    local.service.grant(local.ann, "alpha", "bob")
    with pytest.raises(AccessDenied):
        push()
    with pytest.raises(AccessDenied):
        local.service.authenticate("guess")
    assert local.service.list_queries(bob) == ([], 0)
