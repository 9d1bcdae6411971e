"""The step that a user puts between the source and a stage, held to its promise: a DataFrame in, a DataFrame out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from headgate.errors import ConfigError

Expand = Callable[[DataFrame], DataFrame]

GATE_INSTEAD = (
    "a stage runs the waves itself: write the step as a function that returns the DataFrame, "
    "and give the stage expansion=hg.Expansion(step=..., gate=hg.Gate(in_flight=2, batch=...))"
)


def checked_step(expand: Any) -> Expand | None:
    """Return the step, or refuse what cannot be one; what it returns is looked at in every batch.

    `hg.bounded` commits nothing, so its waves could not be a stage's, which are committed one by one.
    """
    if expand is None:
        return None
    if _is_bounded(expand):
        raise ConfigError(f"the step is the result of hg.bounded, but {GATE_INSTEAD}")
    if not callable(expand):
        raise ConfigError(f"step={expand!r} must be a function from a DataFrame to a DataFrame")

    def step(df: DataFrame) -> DataFrame:
        made = expand(df)
        if isinstance(made, DataFrame):
            return made
        if _is_bounded(made):
            raise ConfigError(f"the step returned the result of hg.bounded, but {GATE_INSTEAD}")
        raise ConfigError(f"the step must return a DataFrame, and returned {type(made).__name__}: {made!r}")

    return step


def _is_bounded(thing: Any) -> bool:
    from headgate.spark.gates.bounded import Bounded  # here, since a stage without it need not load it

    return isinstance(thing, Bounded)
