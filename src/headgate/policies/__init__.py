"""Policies by name: `get("flux-load")`. A policy may also be constructed directly, with settings."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from headgate.control.guard import Guard
from headgate.control.policy import Policy
from headgate.errors import ConfigError
from headgate.policies.adaptive import Adaptive
from headgate.policies.controller import Rules
from headgate.policies.flux_hybrid import FluxHybrid
from headgate.policies.flux_load import FluxLoad
from headgate.policies.flux_memory import FluxMemory
from headgate.policies.horizon import Horizon
from headgate.policies.lqr import Lqr
from headgate.policies.mpc import Mpc
from headgate.policies.rebuild import Rebuild
from headgate.policies.static import Static

__all__ = [
    "Adaptive",
    "FluxHybrid",
    "FluxLoad",
    "FluxMemory",
    "Guard",
    "Horizon",
    "Lqr",
    "Mpc",
    "Policy",
    "Rebuild",
    "Rules",
    "Static",
    "get",
    "names",
]

_MAKERS: dict[str, Callable[[], Policy]] = {
    "adaptive": Adaptive,
    "static": Static,
    "flux-load": FluxLoad,
    "flux-memory": FluxMemory,
    "flux-hybrid": FluxHybrid,
    "rebuild": Rebuild,
    "mpc": Mpc,
    "lqr": Lqr,
}


def names() -> tuple[str, ...]:
    """The names that `get` knows."""
    return tuple(sorted(_MAKERS))


def get(policy: str | Policy) -> Policy:
    """The policy with this name and default settings; a `Policy` is returned unchanged."""
    if not isinstance(policy, str):
        if isinstance(policy, Policy):
            return policy
        raise ConfigError(
            f"{policy!r} is not a policy: name one of {', '.join(names())}, or derive a class from "
            "headgate.policies.Policy with name and propose(view, table)"
        )
    maker = _MAKERS.get(policy)
    if maker is None:
        close = get_close_matches(policy.replace("_", "-").lower(), _MAKERS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"unknown policy {policy!r}: the names are {', '.join(names())}{hint}")
    return maker()
