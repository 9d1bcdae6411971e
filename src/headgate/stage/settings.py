"""What a user sets on a stage, grouped by what it is about. These are values: checked when they are made, never changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.control.guard import Guard
from headgate.control.modes import Mode
from headgate.control.policy import Policy
from headgate.errors import ConfigError
from headgate.flow.gate import Gate
from headgate.operators.base import Operator
from headgate.policies import get as get_policy
from headgate.sizes import parse_bytes

DEFAULT_POLICY = "rebuild"
FEWEST_BINS, BINS_PER_CHANNEL = 128, 32
"""Default number of bins: fine enough to balance within a few percent, few enough that small batches stay cheap."""


@dataclass(frozen=True, kw_only=True)
class Routing:
    """How keys are placed on channels.

    `policy` is a name or a policy (`headgate.policies`). `channels` is the degree of parallelism at the start (`rescale` changes
    it online), `bins` the number of movable pieces of state, fixed for the checkpoint's life. `mode` is "act", "advise"
    (plans are journaled, not carried out) or "observe". `guard` says which plans are worth their cost. `smoothing` is the weight
    of the last batch in the load that the policy sees (1: the last batch alone).

    >>> Routing(channels=4).number_of_bins
    128
    """

    policy: str | Policy = DEFAULT_POLICY
    channels: int = 8
    bins: int | None = None
    mode: str | Mode = "act"
    guard: Guard | None = None
    smoothing: float = 0.5

    def __post_init__(self) -> None:
        get_policy(self.policy)
        Mode.parse(self.mode)
        if not 1 <= self.channels <= self.number_of_bins:
            raise ConfigError(
                f"channels={self.channels} and bins={self.number_of_bins}: there must be at least one channel and a bin for each"
            )

    @property
    def number_of_bins(self) -> int:
        """The bins of a new checkpoint."""
        return max(FEWEST_BINS, BINS_PER_CHANNEL * self.channels) if self.bins is None else self.bins

    @classmethod
    def of(cls, routing: Routing | str | Policy) -> Routing:
        """A routing, or a policy with everything else as it is by default.

        >>> Routing.of("static") == Routing(policy="static")
        True
        """
        return routing if isinstance(routing, Routing) else cls(policy=routing)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much a channel may hold, and let wait. Rows that wait are committed, and come first in a later batch.

    `memory` ("512MB") bounds the state that each channel keeps in memory; beyond it bins go to disk and take turns, `turn_ms`
    apart (None: as long as a read takes) but 8 batches at most, and their rows wait. `buffer` ("64MB") lets the rows of a channel
    that is late wait, so that one burst does not hold up the others. `arrivals` bounds the state that comes to a channel in
    one batch; bins beyond it arrive later, and their rows wait.

    >>> Limits(memory="1GB")
    Limits(memory='1GB', buffer=None, arrivals=None, turn_ms=None)
    """

    memory: str | int | None = None
    buffer: str | int | None = None
    arrivals: str | int | None = None
    turn_ms: float | None = None

    def __post_init__(self) -> None:
        for name in ("memory", "buffer", "arrivals"):
            if getattr(self, name) is not None:
                parse_bytes(getattr(self, name), name)
        if self.turn_ms is not None and not (self.turn_ms >= 0 and math.isfinite(self.turn_ms)):
            raise ConfigError(f"turn_ms={self.turn_ms} is a time in ms between two reads, 0 or more")


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """A step between the source and the stage that makes many rows of one, and the gate that bounds it.

    `step` is a function from a DataFrame to a DataFrame. `gate` (`hg.Gate(in_flight=2, batch="auto")`) cuts a micro-batch into
    waves before the step. Each wave is committed on its own and numbered like a batch, so that only `in_flight` waves' worth of
    the expanded rows exist at a time. Either may be given alone.
    """

    step: Callable[[Any], Any] | None = None
    gate: Gate | None = None

    def __post_init__(self) -> None:
        if self.gate is not None and not isinstance(self.gate, Gate):
            raise ConfigError(f"gate={self.gate!r} is not a gate; use hg.Gate(in_flight=2, batch=...)")


def checked_key(key: str | Sequence[str]) -> tuple[str, ...]:
    """The key as names of columns."""
    names = (key,) if isinstance(key, str) else tuple(key)
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"key={key!r}: name one column, or several different ones")
    return names


def checked_operator(operator: Operator) -> Operator:
    """The operator, if it is one."""
    if isinstance(operator, Operator):
        return operator
    remedy = "use hg.Aggregate(...), hg.Windows(...), hg.Join(...) or another of hg's"
    if callable(operator):
        remedy = "make it one with @hg.kernel(state=..., output=...)"
    raise ConfigError(f"operator={operator!r} is not an operator; {remedy}")
