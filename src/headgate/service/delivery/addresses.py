"""Where a webhook may go. A URL is checked when it is given, and the address that its name has when it is used.

The connection is made to the address that was checked: a name that gets another address meanwhile changes nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import SplitResult, urlsplit

from headgate.errors import ConfigError
from headgate.service.targets_config import Webhooks

LONGEST_URL = 2_000
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]
"""From a host and a port to addresses."""
_SPECIAL = [ipaddress.ip_network(one) for one in ("192.0.0.0/24", "192.88.99.0/24", "fec0::/10")]
"""Not public either, whatever the version of Python says."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True)
class Place:
    """Where a request goes: a checked address, and the host under whose name it is asked."""

    scheme: str
    host: str
    port: int
    path: str
    """With its query."""

    @property
    def authority(self) -> str:
        """The header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"https": 443, "http": 80}[self.scheme]
        return host if self.port == usual else f"{host}:{self.port}"


def check_url(url: Any, policy: Webhooks) -> Place:
    """Read a URL, or say why it may not be a webhook."""
    if not isinstance(url, str) or not url or len(url) > LONGEST_URL:
        raise ConfigError(
            f"a webhook needs the option 'url': https://..., of at most {LONGEST_URL} characters"
        )
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise ConfigError(
            "the URL of a webhook has characters that must be encoded: write them as %XX, and names in punycode"
        )
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"the URL of the webhook cannot be read: {error}") from error
    if parts.scheme not in ("https", "http") or (parts.scheme == "http" and not policy.http):
        only = "https:// or http://" if policy.http else "https://"
        raise ConfigError(f"the URL of a webhook begins with {only}, and this one does not")
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise ConfigError(
            "the URL of a webhook has a user or a password: leave it out, the signature says who sends"
        )
    if parts.fragment:
        raise ConfigError("the URL of a webhook has a fragment (#...), which is never sent: leave it out")
    host = (parts.hostname or "").rstrip(".")
    if not host or port == 0:
        raise ConfigError("the URL of the webhook names no host, or port 0")
    if not any(fnmatchcase(host, pattern.lower()) for pattern in policy.hosts):
        raise ConfigError(
            f"webhooks to the host {host!r} are not allowed here: ask the operator of the service"
        )
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Place(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), path)


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system finds them."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConnectionError(f"the name {host!r} has no address ({error})") from error
    return list(dict.fromkeys(str(one[4][0]) for one in found))


class Forbidden(ConfigError):
    """A webhook would go where none may go."""


def checked_address(host: str, port: int, policy: Webhooks, find: Resolve = resolve) -> str:
    """The address to connect to. A host is refused if any of its addresses is not public: its name may be a trick."""
    found = find(host, port)
    if not found:
        raise ConnectionError(f"the name {host!r} has no address")
    for one in found:
        if not is_allowed(one, policy):
            raise Forbidden(
                f"the host {host!r} has an address that is not public, and webhooks may not go there: use a public address, "
                "or ask the operator to allow its network"
            )
    return found[0]


def is_allowed(address: str, policy: Webhooks) -> bool:
    """Whether webhooks may go to an address: public ones, and those of the networks that the operator allows.

    >>> [is_allowed(one, Webhooks()) for one in ("93.184.216.34", "127.0.0.1", "::ffff:10.0.0.1", "169.254.169.254", "fec0::1")]
    [True, False, False, False, False]
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if any(ip.version == network.version and ip in network for network in policy.networks):
        return True
    inner = _inside(ip)
    if inner is not None:
        return is_allowed(str(inner), policy)
    if any(ip.version == network.version and ip in network for network in _SPECIAL):
        return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_unspecified)


def _inside(ip: Address) -> Address | None:
    """The IPv4 address that an IPv6 address stands for: mapped, 6to4, Teredo, NAT64."""
    if isinstance(ip, ipaddress.IPv4Address):
        return None
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip.sixtofour is not None:
        return ip.sixtofour
    if ip.teredo is not None:
        return ip.teredo[1]
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return None
