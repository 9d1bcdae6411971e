"""Tenants: each sees and changes only what is its own."""

import pytest

from headgate.errors import (
    AccessDenied,
    NotFound,
)


def test_tenants_see_their_own(local) -> None:
    (number,) = local.add("SELECT x FROM alpha")
    bob = local.service.authenticate(local.service.add_tenant("bob"))
    for act in (lambda: local.service.read(bob, number), lambda: local.service.remove(bob, number)):
        with pytest.raises(NotFound):
            act()
    with pytest.raises(AccessDenied):
        local.service.push_events(bob, "alpha", [{"time": 1}])
    with pytest.raises(AccessDenied):
        local.service.authenticate("guess")
    assert local.service.list_queries(bob) == ([], 0)
