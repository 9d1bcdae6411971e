"""How the service is reached and who is let in: TLS, proxies, somebody else's tokens. Sections [http] and [oidc]."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headgate.errors import ConfigError
from headgate.service.tenants import WRITER, checked_role

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures whose public key cannot sign. Those with a shared secret (HS256), and `none`, are never accepted."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class OidcConfig:
    """Tokens of an identity provider: JWTs that are signed with one of its keys."""

    issuer: str
    """Whose tokens they are: their claim `iss`."""
    audience: str
    """For whom they are: their claim `aud`."""
    jwks: str
    """Where its public keys are: an https:// URL, or a file."""
    tenant_claim: str = "sub"
    """The claim that names the tenant. It must be one that users cannot choose."""
    role_claim: str = ""
    """The claim that names the role, or lists roles; without it, everyone has `role`."""
    role: str = WRITER
    """The role of everyone, if tokens name none."""
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    """How tokens may be signed."""
    leeway_s: float = 30.0
    """How far clocks may be apart."""
    create: bool = False
    """Whether a tenant that is not known is added, as a writer."""
    refresh_s: float = 30.0
    """How long to wait at least before the keys are fetched again because a token names one that is not known."""

    def __post_init__(self) -> None:
        for name in ("issuer", "audience", "jwks", "tenant_claim"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ConfigError(f"[oidc] needs {name}")
        object.__setattr__(self, "algorithms", tuple(self.algorithms))
        if wrong := [name for name in self.algorithms if name not in ALGORITHMS] or not self.algorithms:
            raise ConfigError(f"[oidc] algorithms {wrong}: choose among {', '.join(ALGORITHMS)}")
        if not 0 <= self.leeway_s <= 300 or self.refresh_s <= 0:
            raise ConfigError("[oidc] leeway_s is 0 to 300, and refresh_s above 0")
        checked_role(self.role)
        url = urlsplit(self.jwks)
        if url.scheme == "http" and url.hostname not in LOOPBACK:
            raise ConfigError(f"[oidc] jwks {self.jwks!r}: keys come over https, or from a file")

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> OidcConfig | None:
        """Read the section; None if there is none."""
        if not section:
            return None
        known = {one.name for one in fields(cls)}
        if unknown := sorted(set(section) - known):
            raise ConfigError(
                f"[oidc] sets {unknown[0]!r}, which is not known; it can set {', '.join(sorted(known))}"
            )
        return cls(**{"issuer": "", "audience": "", "jwks": "", **section})


@dataclass(frozen=True)
class Access:
    """How the service is reached."""

    certificate: str = ""
    """The file of the certificate with its chain, for TLS. It is read again when it changes."""
    key: str = ""
    """The file of its private key."""
    proxies: tuple[str, ...] = ()
    """Addresses and networks whose X-Forwarded-For and X-Forwarded-Proto are believed."""
    metrics_token: bool = False
    """Whether /metrics asks for a token."""
    oidc: OidcConfig | None = field(default=None)

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.key):
            raise ConfigError("[http] certificate and key belong together: set both, or none")
        for path in filter(None, (self.certificate, self.key)):
            if not Path(path).is_file():
                raise ConfigError(f"[http] names {path}, which is not a file")
        object.__setattr__(self, "proxies", tuple(self.proxies))
        for proxy in self.proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError as error:
                raise ConfigError(f"[http] proxies: {proxy!r} is no address or network ({error})") from error

    @property
    def scheme(self) -> str:
        """How an address of the service begins."""
        return "https" if self.certificate else "http"
