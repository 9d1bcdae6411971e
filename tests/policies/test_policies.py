"""Policies by name."""

import pytest

from headgate import policies
from headgate.control import LoadView
from headgate.errors import ConfigError
from headgate.policies import FluxLoad, Static
from headgate.routing.table import Table


def test_names() -> None:
    assert policies.get("static") == Static()
    assert policies.get("flux-load") == FluxLoad()
    assert policies.get(FluxLoad(1.5)) == FluxLoad(1.5)
    for name in policies.names():
        policy = policies.get(name)
        assert policy.name == name
        assert policy.initial(8, 2) == Table.uniform(8, 2)
    assert Static().propose(LoadView(), Table.uniform(2, 2)) is None


def test_an_unknown_name_lists_the_names_and_the_closest() -> None:
    with pytest.raises(
        ConfigError,
        match=r"flux-hybrid, flux-load, flux-memory, lqr, mpc, rebuild, static; did you mean 'flux-load'\?",
    ):
        policies.get("flux_laod")
    with pytest.raises(ConfigError, match="is not a policy"):
        policies.get(3)  # type: ignore[arg-type]
