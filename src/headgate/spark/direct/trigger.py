"""When a batch of a direct stream starts, and how large it may be."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.errors import ConfigError
from headgate.operators.event_time import SECOND, parse_duration
from headgate.streams.batch_size import MOST


@dataclass(frozen=True)
class Trigger:
    """When a batch starts, and how large it may be."""

    available_now: bool = False
    seconds: float | None = None
    max_rows: int = MOST
    latency: float | None = None

    @classmethod
    def of(cls, available_now: bool, every: str | None, max_rows: int | None, latency: str | None) -> Trigger:
        """The trigger that a user describes."""
        if available_now and every is not None:
            raise ConfigError(f"available_now and every={every!r} exclude each other; give one of them")
        if max_rows is not None and (
            not isinstance(max_rows, int) or isinstance(max_rows, bool) or max_rows < 1
        ):
            raise ConfigError(f"max_rows={max_rows!r} must be a whole number of rows, at least 1")
        if not isinstance(available_now, bool):
            raise ConfigError(f"available_now={available_now!r} is True or False")
        seconds = None if every is None else parse_duration(every, "every", least=1) / SECOND
        target = None if latency is None else parse_duration(latency, "latency", least=1) / SECOND
        return cls(available_now, seconds, MOST if max_rows is None else max_rows, target)
