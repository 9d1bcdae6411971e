"""What `headgate serve` can be told: options of the command line, and a TOML file with more."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from headgate.errors import ConfigError
from headgate.service.edge_limits import EdgeLimits
from headgate.sql.engine import Function
from headgate.sql.limits import Limits

SECTIONS = {"service", "http", "limits", "spark", "streams", "functions"}
OPTIONS = {"folder", "host", "port", "servers", "tasks", "master", "registry", "state", "demo"}
"""What [service] may set: the options of the command line."""


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
    limits: Limits = field(default_factory=Limits)
    edge: EdgeLimits = field(default_factory=EdgeLimits)
    """Bounds on connections and requests: the section [http]."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark."""
    streams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Spark streaming sources by name: format, schema, options, select, time."""
    functions: Mapping[str, Function] = field(default_factory=dict)
    tasks: int = 0
    """How many tasks a batch has at most; 0 means as many as Spark runs at a time."""

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
        options = _checked(path, "service", body.get("service", {}), OPTIONS)
        limits = _checked(path, "limits", body.get("limits", {}), {limit.name for limit in fields(Limits)})
        edge = _checked(path, "http", body.get("http", {}), {limit.name for limit in fields(EdgeLimits)})
        if "folder" in options:
            options["folder"] = Path(options["folder"])
        return replace(
            self,
            **options,
            limits=Limits(**limits),
            edge=EdgeLimits(**edge),
            spark={name: str(value) for name, value in body.get("spark", {}).items()},
            streams=body.get("streams", {}),
            functions=_functions(path, body.get("functions", {})),
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
