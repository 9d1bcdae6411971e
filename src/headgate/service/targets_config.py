"""Where results may be delivered: what `[targets.NAME]` and `[webhooks]` of the configuration may say.

A target is a place that the operator allows: a Kafka topic, or a folder or catalog for tables. Tenants name it, and choose
no other. Webhooks are the exception: tenants give a URL, within the policy that `[webhooks]` sets.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from headgate.errors import ConfigError
from headgate.sql.source_schema import NAME

WEBHOOK = "webhook"
"""Takes the name of a target in a delivery to a URL."""
KEYS = {
    "kafka": ({"servers", "topic"}, {"options"}),
    "delta": ({"path"}, {"storage_options"}),
    "iceberg": ({"catalog"}, set[str]()),
    "parquet": ({"path"}, set[str]()),
}
"""By kind: what a section must set, and what it may."""
SECRET = {"kafka": "options", "delta": "storage_options", "iceberg": "catalog"}
"""By kind: the table into which `options_from_env` puts its values."""
COMMON = {"kind", "tenants", "options_from_env"}
EVERYONE = "*"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class Target:
    """A place to which results may go, and whose."""

    name: str
    kind: str
    settings: Mapping[str, Any] = field(repr=False)
    """They may hold a password, so they are never shown or written."""
    tenants: frozenset[str] = frozenset()

    def allows(self, tenant: str) -> bool:
        """Whether a tenant may deliver there."""
        return tenant in self.tenants or EVERYONE in self.tenants

    @classmethod
    def of(cls, name: str, section: Any, environment: Mapping[str, str]) -> Target:
        """Read a section of the configuration. Options named in `options_from_env` come from the environment."""
        where = f"[targets.{name}]"
        if not NAME.fullmatch(name) or name == WEBHOOK:
            raise ConfigError(
                f"{where}: a name has lower-case letters, digits and _, and is not {WEBHOOK!r}: choose another"
            )
        kind = section.get("kind") if isinstance(section, Mapping) else None
        if kind not in KEYS:
            raise ConfigError(f"{where} has kind {kind!r}: write kind = one of {', '.join(sorted(KEYS))}")
        needed, optional = KEYS[kind]
        if unknown := sorted(set(section) - needed - optional - COMMON):
            known = ", ".join(sorted(needed | optional | COMMON))
            raise ConfigError(f"{where} sets {unknown[0]!r}, which is not known; it can set {known}")
        if missing := sorted(needed - set(section)):
            raise ConfigError(f"{where} lacks {missing[0]!r}, which a target of kind {kind!r} needs")
        tenants = section.get("tenants")
        listed = [tenants] if isinstance(tenants, str) else tenants
        if not isinstance(listed, list) or not all(isinstance(one, str) and one for one in listed):
            raise ConfigError(f"{where} has tenants = {tenants!r}: write a list of tenants, or '*' for all")
        settings = {key: section[key] for key in needed | optional if key in section}
        from_env = section.get("options_from_env", {})
        if from_env and (kind not in SECRET or not isinstance(from_env, Mapping)):
            raise ConfigError(
                f"{where} sets options_from_env = {from_env!r}: write a table, for {', '.join(SECRET)}"
            )
        for option, variable in from_env.items():
            if variable not in environment:
                raise ConfigError(
                    f"{where} takes {option!r} from the environment variable {variable!r}, which is not set: set it where "
                    "the service is started"
                )
            into = SECRET[kind]
            settings[into] = {**settings.get(into, {}), option: environment[variable]}
        return cls(name, kind, settings, frozenset(listed))


@dataclass(frozen=True)
class Webhooks:
    """What tenants may do with webhooks: the section [webhooks]."""

    tenants: tuple[str, ...] = (EVERYONE,)
    """Who may have any."""
    hosts: tuple[str, ...] = ("*",)
    """To which hosts, as patterns: `hooks.example.com`, `*.example.com`."""
    http: bool = False
    """Whether a URL may be http://, which shows results to whoever listens on the way."""
    networks: tuple[Network, ...] = ()
    """Networks that are not public and all the same allowed: `10.1.0.0/16`. The others are refused."""
    seconds: float = 10.0
    """How long one request may take, from connecting to the status of the answer."""
    give_up_s: float = 86_400.0
    """How long a target may fail before the delivery stops. It holds for all kinds of targets."""
    rows: int = 1_000
    """How many results one request carries at most."""
    bytes: int = 1 << 20
    """How large its body is at most; a single result may be larger."""

    def __post_init__(self) -> None:
        for name in ("seconds", "give_up_s", "rows", "bytes"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"[webhooks] {name}={getattr(self, name)!r}: a number above 0")

    def allows(self, tenant: str) -> bool:
        """Whether a tenant may have webhooks."""
        return tenant in self.tenants or EVERYONE in self.tenants

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> Webhooks:
        """Read the section."""
        kinds: dict[str, type | tuple[type, ...]] = {
            "tenants": list, "hosts": list, "networks": list, "http": bool, "seconds": (int, float),
            "give_up_s": (int, float), "rows": int, "bytes": int,
        }  # fmt: skip
        if unknown := sorted(set(section) - {one.name for one in fields(cls)}):
            raise ConfigError(
                f"[webhooks] sets {unknown[0]!r}, which is not known; it can set {', '.join(sorted(kinds))}"
            )
        for name, value in section.items():
            whole = isinstance(value, bool) and kinds[name] is not bool
            texts = not isinstance(value, list) or all(isinstance(one, str) for one in value)
            if whole or not isinstance(value, kinds[name]) or not texts:
                raise ConfigError(f"[webhooks] sets {name} = {value!r}, which is not of the right type")
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in section.items()
        }
        try:
            values["networks"] = tuple(ipaddress.ip_network(one) for one in values.get("networks", ()))
        except ValueError as error:
            raise ConfigError(f"[webhooks] networks: {error}; write them like '10.1.0.0/16'") from error
        return cls(**values)


@dataclass(frozen=True)
class Allowed:
    """All places to which results may go."""

    targets: Mapping[str, Target] = field(default_factory=dict)
    webhooks: Webhooks = field(default_factory=Webhooks)

    @classmethod
    def of(cls, body: Mapping[str, Any], environment: Mapping[str, str]) -> Allowed:
        """Read both sections of a configuration."""
        targets = {
            name: Target.of(name, section, environment) for name, section in body.get("targets", {}).items()
        }
        return cls(targets, Webhooks.of(body.get("webhooks", {})))
