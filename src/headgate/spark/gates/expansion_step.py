"""Checks the step that a user puts between the source and a stage: it must take and return a DataFrame."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from headgate.errors import ConfigError
from headgate.stage.settings import Expansion

Expand = Callable[[DataFrame], DataFrame]

GATE_INSTEAD = (
    "a stage runs the waves itself: write the step as a function that returns the DataFrame, "
    "and give the stage expansion=hg.Expansion(step=..., gate=hg.Gate(in_flight=2, batch=...)); "
    "several expansions are nested gates"
)


def with_checked_step(expansion: Any) -> Any:
    """An expansion whose step is checked; the stage refuses what is no expansion."""
    if not isinstance(expansion, Expansion):
        return expansion
    return replace(expansion, step=checked_step(expansion.step))


def checked_step(expand: Any) -> Expand | None:
    """Return the step, wrapped so that its result is checked in every batch; refuse what cannot be a step.

    A result of `hg.bounded` is refused because a stage commits each wave,
    and `hg.bounded` commits nothing. Waves expand in threads; the user's function is called by one at a time.
    """
    if expand is None:
        return None
    if _is_bounded(expand):
        raise ConfigError(f"the step is the result of hg.bounded, but {GATE_INSTEAD}")
    if not callable(expand):
        raise ConfigError(f"step={expand!r} must be a function from a DataFrame to a DataFrame")

    turn = threading.Lock()

    def step(df: DataFrame) -> DataFrame:
        with turn:
            expanded = expand(df)
        if isinstance(expanded, DataFrame):
            return expanded
        if _is_bounded(expanded):
            raise ConfigError(f"the step returned the result of hg.bounded, but {GATE_INSTEAD}")
        raise ConfigError(
            f"the step must return a DataFrame, and returned {type(expanded).__name__}: {expanded!r}"
        )

    return step


def _is_bounded(value: Any) -> bool:
    from headgate.spark.gates.bounded import Bounded  # imported here: most stages never need it

    return isinstance(value, Bounded)
