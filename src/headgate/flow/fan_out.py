"""A fan-out that is known before the rows are made, so that a gate can count output rows (FAUCET-15)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FanOut:
    """A column that says how many rows each row becomes.

    `first` and `last` name the columns that tell the guarded step which of these outputs to make in this
    wave. Without them rows stay whole, and a wave may exceed its size by the fan-out of one row.

    >>> FanOut("n").splits, FanOut("n", "lo", "hi").splits
    (False, True)
    """

    column: str
    first: str = ""
    last: str = ""

    @property
    def splits(self) -> bool:
        """Whether a row's outputs may be divided between waves."""
        return bool(self.first)

    @classmethod
    def of(cls, fan_out: str | FanOut | None) -> FanOut | None:
        """What the user gave: a column's name, or the whole."""
        return cls(fan_out) if isinstance(fan_out, str) else fan_out
