"""What `headgate serve` can be told: options of the command line, and a TOML file with more."""

from __future__ import annotations

import importlib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from headgate.errors import ConfigError
from headgate.service.access import Access, OidcConfig
from headgate.service.edge_limits import EdgeLimits
from headgate.service.flow import Flow
from headgate.service.targets_config import Allowed
from headgate.sql.engine import Function
from headgate.sql.limits import Limits

SECTIONS = {"service", "http", "oidc", "limits", "spark", "streams", "functions", "targets", "webhooks"}
OPTIONS = {
    "folder",
    "host",
    "port",
    "servers",
    "tasks",
    "master",
    "registry",
    "state",
    "push",
    "demo",
    "standby",
    "lease_s",
    "drain_s",
    "audit_entries",
    "repair",
    "refine",
}
"""What [service] may set: the options of the command line, and those of the flow."""
FLOW = {limit.name for limit in fields(Flow)}


@dataclass(frozen=True)
class ServiceConfig:
    """Everything that a service process needs to know."""

    folder: Path
    host: str
    port: int
    servers: int
    master: str
    registry: str
    demo: bool
    """Whether to feed a source of made-up weather."""
    state: str = ""
    """Where state and results are stored, if not in the folder."""
    push: str = ""
    """Where pushed events wait, if not with the state at its URL, or else in the folder."""
    standby: bool = False
    """Whether to wait until no other process leads the service, and then lead it."""
    lease_s: float = 10.0
    """After how long without a sign a leader on another machine counts as dead."""
    drain_s: float = 60.0
    """How long the process may take to stop: half of it for the batch under way."""
    limits: Limits = field(default_factory=Limits)
    edge: EdgeLimits = field(default_factory=EdgeLimits)
    """Bounds on connections and requests: the section [http]."""
    access: Access = field(default_factory=Access)
    """TLS, proxies and identity providers: the sections [http] and [oidc]."""
    audit_entries: int = 500_000
    """How many entries of the audit log are kept."""
    repair: int = 64
    """How many computations a batch may move to other servers; 0 moves none."""
    refine: int = 4
    """How many samples of computations a batch divides anew with the moves that repair leaves; 0 divides none."""
    flow: Flow = field(default_factory=Flow)
    """How much a batch takes and how much may wait: a part of the section [service]."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark."""
    streams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Streams by name: format, the options of its connector, select, time."""
    functions: Mapping[str, Function] = field(default_factory=dict)
    allowed: Allowed = field(default_factory=Allowed)
    """Where results may be delivered: the sections [targets.NAME] and [webhooks]."""
    tasks: int = 0
    """How many tasks a batch has at most; 0 means as many as Spark runs at a time."""

    def __post_init__(self) -> None:
        for name in ("servers", "lease_s", "drain_s", "audit_entries"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name}={getattr(self, name)}: a number above 0")
        if self.repair < 0 or self.refine < 0:
            raise ConfigError(
                f"repair={self.repair}, refine={self.refine}: numbers of computations and of samples, 0 or more"
            )

    def with_file(self, path: Path | None) -> ServiceConfig:
        """The same with what a TOML file sets, which overrides the command line."""
        if path is None:
            return self
        try:
            body = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from error
        if unknown := sorted(set(body) - SECTIONS):
            raise ConfigError(
                f"{path}: section [{unknown[0]}] is not known; the sections are {', '.join(sorted(SECTIONS))}"
            )
        options = _checked(path, "service", body.get("service", {}), OPTIONS | FLOW)
        flow = {name: options.pop(name) for name in FLOW & options.keys()}
        limits = _checked(path, "limits", body.get("limits", {}), {limit.name for limit in fields(Limits)})
        limited = {limit.name for limit in fields(EdgeLimits)}
        reached = {option.name for option in fields(Access)} - {"oidc"}
        http = _checked(path, "http", body.get("http", {}), limited | reached)
        access = {name: value for name, value in http.items() if name in reached}
        if "folder" in options:
            options["folder"] = Path(options["folder"])
        return replace(
            self,
            **options,
            limits=Limits(**limits),
            edge=EdgeLimits(**{name: value for name, value in http.items() if name in limited}),
            access=Access(**access, oidc=OidcConfig.of(body.get("oidc", {}))),
            flow=Flow(**flow),
            spark={name: str(value) for name, value in body.get("spark", {}).items()},
            streams=body.get("streams", {}),
            functions=_functions(path, body.get("functions", {})),
            allowed=Allowed.of(body, os.environ),
        )


def _checked(path: Path, section: str, body: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    if unknown := sorted(set(body) - known):
        raise ConfigError(
            f"{path}: [{section}] sets {unknown[0]!r}, which is not known; it can set {', '.join(sorted(known))}"
        )
    return dict(body)


def _functions(path: Path, sections: Mapping[str, Mapping[str, Any]]) -> dict[str, Function]:
    """Read [functions.NAME] call = "module:attribute", arguments = [...], returns = "..."."""
    functions = {}
    for name, section in sections.items():
        try:
            module, _, attribute = str(section["call"]).partition(":")
            call = getattr(importlib.import_module(module), attribute)
            functions[name] = Function(name, tuple(section["arguments"]), str(section["returns"]), call)
        except (KeyError, ImportError, AttributeError) as error:
            raise ConfigError(
                f"{path}: [functions.{name}] needs call = 'module:function', arguments and returns ({error})"
            ) from error
    return functions
