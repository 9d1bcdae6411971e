"""How much a batch takes, how much may wait, and when that counts as too slow."""

from __future__ import annotations

from dataclasses import dataclass, fields

from headgate.errors import ConfigError


@dataclass(frozen=True)
class Flow:
    """Bounds on what flows through the service: options of the section [service]."""

    batch_rows: int = 200_000
    """Rows of a batch."""
    batch_bytes: int = 256_000_000
    """Bytes of a batch's rows in memory, as far as they are known before they are read."""
    pause_s: float = 0.02
    """The least pause between two batches, in seconds."""
    poll_s: float = 0.5
    """How often streams are asked for new rows, in seconds. Pushed events are noticed at once."""
    backlog_rows: int = 5_000_000
    """Rows that were pushed and are not yet committed."""
    backlog_bytes: int = 2_000_000_000
    """The same in bytes."""
    tenant_backlog_rows: int = 1_000_000
    """Such rows of one tenant."""
    tenant_backlog_bytes: int = 500_000_000
    """The same in bytes."""
    lag_s: float = 60.0
    """The service lags when a row has waited longer than this, in seconds."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 0 if field.name == "pause_s" else 1e-9
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not least <= value < float("inf")
            ):
                raise ConfigError(f"[service] {field.name} = {value!r}: a number above 0")
