"""The settings of a stage, grouped by subject. They are immutable values, checked when they are made."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from headgate.control.guard import Guard
from headgate.control.modes import Mode
from headgate.control.policy import Policy
from headgate.errors import ConfigError
from headgate.flow.fan_out import FanOut
from headgate.flow.gate import Gate
from headgate.flow.shared_memory import SharedMemory
from headgate.operators.base import Operator
from headgate.operators.event_time import parse_duration
from headgate.policies import get as get_policy
from headgate.sizes import parse_bytes

Kind = TypeVar("Kind")
DEFAULT_POLICY = "adaptive"
FEWEST_BINS, BINS_PER_CHANNEL = 128, 32
"""Default number of bins: fine enough to balance within a few percent, few enough
that small batches stay cheap.
"""


@dataclass(frozen=True, kw_only=True)
class Routing:
    """How keys are placed on channels.

    `policy` is a name or a policy (`headgate.policies`). `channels` is the degree of parallelism at the
    start (`rescale` changes it online). `bins` is the number of movable pieces of state, which is fixed
    for the life of the checkpoint. `mode` is "act", "advise" (plans are written to the journal but not
    carried out) or "observe". `guard` decides which plans are worth their cost. `smoothing` is the weight
    of the last batch in the load that the policy sees (1: only the last batch counts).

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
        whole_number(self.channels, "channels")
        if self.bins is not None:
            whole_number(self.bins, "bins")
        if self.guard is not None and not isinstance(self.guard, Guard):
            raise ConfigError(f"guard={self.guard!r} is not a guard; use hg.policies.Guard(min_gain=...)")
        if not isinstance(self.smoothing, int | float) or not 0 < self.smoothing <= 1:
            raise ConfigError(f"smoothing={self.smoothing!r} is a weight above 0 and up to 1")
        if not 1 <= self.channels <= self.number_of_bins:
            raise ConfigError(
                f"channels={self.channels} and bins={self.number_of_bins}: there must be at least one channel "
                "and a bin for each channel"
            )

    @property
    def number_of_bins(self) -> int:
        """The number of bins of a new checkpoint."""
        return max(FEWEST_BINS, BINS_PER_CHANNEL * self.channels) if self.bins is None else self.bins

    @classmethod
    def of(cls, routing: Routing | str | Policy) -> Routing:
        """The routing itself, or a policy with defaults for everything else.

        >>> Routing.of("static") == Routing(policy="static")
        True
        """
        return routing if isinstance(routing, Routing) else cls(policy=routing)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much state a channel may hold in memory, and which rows may wait. Waiting rows are
    committed, and are processed first in a later batch.

    `memory` ("512MB") bounds the state that each channel keeps in memory. Other bins are on disk,
    and their rows wait. Stages that are given the same `hg.SharedMemory("1GB")` share it. Bins take
    turns in memory every `turn_ms` (None: as long as a read takes), at the latest after 8 batches.
    `buffer` ("64MB") lets rows of a late channel wait, so that one burst does not hold up the other
    channels. `arrivals` bounds the state that a channel receives by moves in one batch; other bins
    arrive later, and their rows wait.

    `deadlines` ({"alarm": "200 ms"}) says how long the rows of some keys should wait at most, `deadline`
    the same for all other keys. What waits is then served by slack, that is the time left until its
    deadline less what it will cost, and not in the order in which it came. A key of several columns is a
    tuple. Rows of a key are in order all the same, and nothing waits for ever (`flow.slack`).

    >>> Limits(memory="1GB", deadlines={"alarm": "200 ms"}).milliseconds("alarm")
    200.0
    """

    memory: str | int | SharedMemory | None = None
    buffer: str | int | None = None
    arrivals: str | int | None = None
    turn_ms: float | None = None
    deadlines: Mapping[Any, str] | None = None
    deadline: str | None = None

    def __post_init__(self) -> None:
        if self.deadlines is not None and not isinstance(self.deadlines, Mapping):
            raise ConfigError(
                f'deadlines={self.deadlines!r} is not a mapping of keys to durations: {{"alarm": "200 ms"}}'
            )
        for key in self.deadlines or ():
            self.milliseconds(key)
        if self.deadline is not None:
            parse_duration(self.deadline, "deadline")
        for name in ("memory", "buffer", "arrivals"):
            if getattr(self, name) is not None and not isinstance(getattr(self, name), SharedMemory):
                parse_bytes(getattr(self, name), name)
        number = isinstance(self.turn_ms, int | float) and self.turn_ms >= 0 and math.isfinite(self.turn_ms)
        if self.turn_ms is not None and not number:
            raise ConfigError(f"turn_ms={self.turn_ms} must be a time in ms between two reads, 0 or more")

    def milliseconds(self, key: Any) -> float:
        """The deadline of a key that has one of its own."""
        return parse_duration((self.deadlines or {})[key], f"deadlines[{key!r}]") / 1e3

    @property
    def others_ms(self) -> float:
        """The deadline of all other keys."""
        return math.inf if self.deadline is None else parse_duration(self.deadline, "deadline") / 1e3


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """A step between the source and the stage that makes many rows of one, and the gate that bounds it.

    `step` is a function from a DataFrame to a DataFrame. `gate`
    (`hg.Gate(in_flight=2, batch="auto")`) cuts a micro-batch into waves before the step. Each wave
    is committed on its own and numbered like a batch, so that the expanded rows of only `in_flight`
    waves exist at a time. Either may be given alone.

    `fan_out` names a column that says how many rows each row becomes; the gate then counts output rows.
    `hg.FanOut("n", "lo", "hi")` also divides the outputs of one row between waves, which makes the bound
    hard: the step makes outputs lo to hi of each row. `explode` is a function from a row (a dict) to an
    iterator of tuples of the given `schema`; the gate draws rows from these iterators, suspends them
    between waves and counts the rows drawn. The step, if there is one, is applied to them.

    Several expansions in a row are nested gates: what passes the first is the input of the second.
    """

    step: Callable[[Any], Any] | None = None
    gate: Gate | None = None
    fan_out: str | FanOut | None = None
    explode: Callable[[dict[str, Any]], Any] | None = None
    schema: Any = None

    def __post_init__(self) -> None:
        if self.gate is not None and not isinstance(self.gate, Gate):
            raise ConfigError(f"gate={self.gate!r} is not a gate; use hg.Gate(in_flight=2, batch=...)")
        if self.fan_out is not None and not isinstance(self.fan_out, str | FanOut):
            raise ConfigError(
                f'fan_out={self.fan_out!r} is not a column; name one, or use hg.FanOut("n", "lo", "hi")'
            )
        if self.explode is not None and not callable(self.explode):
            raise ConfigError(
                f"explode={self.explode!r} must be a function from a row to an iterator of tuples"
            )
        if self.explode is not None and self.fan_out is not None:
            raise ConfigError("explode counts the rows as it makes them; omit fan_out")
        if (self.explode is None) != (self.schema is None):
            raise ConfigError(
                'explode and schema belong together: schema="..." has the columns that it makes'
            )
        if self.fan_out is not None and self.step is None:
            raise ConfigError("fan_out counts what the step makes of each row: give step=...")
        for name in ("explode", "fan_out"):
            if getattr(self, name) is not None and self.gate is None:
                raise ConfigError(
                    f"{name} is the gate's: give gate=hg.Gate(in_flight=2, batch=...), or omit it"
                )


def gates_of(
    expansion: Expansion | Sequence[Expansion] | None,
) -> tuple[Callable[[Any], Any] | None, tuple[Expansion, ...]]:
    """A step before all gates, if there is one, and the gates, the outermost first. A step without a gate
    belongs to the gate before it.
    """
    given = (expansion,) if expansion is None or isinstance(expansion, Expansion) else tuple(expansion)
    first: Callable[[Any], Any] | None = None
    gates: list[Expansion] = []
    for one in given:
        each = checked(one, Expansion, "expansion")
        if each is None:
            continue
        if each.gate is not None:
            gates.append(each)
        elif gates:
            gates[-1] = replace(gates[-1], step=_composed(gates[-1].step, each.step))
        else:
            first = _composed(first, each.step)
    return first, tuple(gates)


def _composed(
    first: Callable[[Any], Any] | None, second: Callable[[Any], Any] | None
) -> Callable[[Any], Any] | None:
    if first is None or second is None:
        return first or second
    return lambda rows: second(first(rows))


def whole_number(value: object, what: str, *, least: int = 1) -> None:
    """Refuse what is not a whole number, or too small a one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        few = "there must be at least one channel and a bin for each channel" if least else "0 or more"
        raise ConfigError(f"{what}={value!r} must be a whole number: {few}")


def checked(value: Kind | None, kind: type[Kind], what: str) -> Kind | None:
    """A group of settings, if it is one."""
    if value is None or isinstance(value, kind):
        return value
    raise ConfigError(f"{what}={value!r} is not a group of settings; write {what}=hg.{kind.__name__}(...)")


def checked_key(key: str | Sequence[str]) -> tuple[str, ...]:
    """The names of the key columns."""
    names = (key,) if isinstance(key, str) else tuple(key)
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"key={key!r}: name one column, or several different ones")
    return names


def checked_operator(operator: Operator) -> Operator:
    """The operator; anything else is refused."""
    if isinstance(operator, Operator):
        return operator
    remedy = "use hg.Aggregate(...), hg.Windows(...), hg.Join(...) or another operator of hg"
    if isinstance(operator, type):
        remedy = f"it is a class; make one of it, as in {operator.__name__}(...)"
    elif callable(operator):
        remedy = "make it one with @hg.kernel(state=..., output=...)"
    raise ConfigError(f"operator={operator!r} is not an operator; {remedy}")
