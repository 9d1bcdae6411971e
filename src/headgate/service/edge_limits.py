"""The limits of the edge: what one connection and one request may take before anything of them is believed."""

from __future__ import annotations

from dataclasses import dataclass, fields

from headgate.errors import ConfigError


@dataclass(frozen=True)
class EdgeLimits:
    """Bounds on connections and requests. Times are in seconds."""

    connections: int = 8_000
    """Connections that are open at once. Further ones replace those that have waited longest without a request, or else
    those whose bodies or readers are slow. One tenant has at most half of them busy."""
    header_s: float = 10.0
    """How long a connection may take to send the headers of a request, and how long nothing of a body may come."""
    send_s: float = 30.0
    """How long a connection may take nothing of an answer."""
    body_s: float = 60.0
    """How long a request may take to send its body."""
    body_bytes: int = 1 << 20
    """Bytes of a request's body."""
    bulk_bytes: int = 64 << 20
    """The same for the routes that take many queries, sources or events."""
    bodies_bytes: int = 256 << 20
    """Bytes of all bodies that are held at once; one tenant has a quarter of them."""
    room_s: float = 1.0
    """How long a push that there is no room for waits, unread, before it is refused."""
    tails: int = 2_500
    """Streams of results that one tenant has open at once."""
    requests_s: float = 1_000.0
    """Requests a second of one tenant, for long."""
    requests_burst: int = 10_000
    """Requests of one tenant that may come at once."""
    strangers_s: float = 50.0
    """Requests a second of one address without a valid token, for long."""
    strangers_burst: int = 1_000
    """Such requests of one address that may come at once."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise ConfigError(f"limit {field.name}={getattr(self, field.name)}: a number above 0")
