"""Which errors a fault explains. Any other error is a failure of the product."""

from __future__ import annotations

from collections import Counter

from headgate.errors import (
    BatchOrder,
    CheckpointError,
    CorruptState,
    HeadgateError,
    NewerFormat,
    OlderFormat,
    SinkFailed,
    SourceFailed,
    StorageFull,
    Superseded,
)
from headgate_lab.chaos.faults import AWAY

ERRORS: dict[str, tuple[type[HeadgateError], ...]] = {
    "error": (CheckpointError, SinkFailed, SourceFailed),
    "lost answer": (CheckpointError, SinkFailed),
    "late": (CheckpointError, SinkFailed),
    "full": (StorageFull,),
    "bit rot": (CorruptState, NewerFormat, OlderFormat),
    "range vanishes": (SourceFailed,),
}
"""The errors that a fault may cause; any other is a failure of the product."""
PRECISE = (CorruptState, NewerFormat, OlderFormat, Superseded, StorageFull)
"""Errors that name a fault, so only that fault may cause them."""


def explained(error: HeadgateError, struck: Counter[str], *, overtaken: bool, way: str) -> bool:
    """Whether the faults that struck explain an error of a driver; `overtaken` says that there is a newer one."""
    slept = any(struck[kind] for kind in AWAY)
    if isinstance(error, Superseded):
        # The newest claim counts, and a driver that slept may have claimed after a younger one.
        return overtaken or slept
    if isinstance(error, BatchOrder):
        # Spark delivers what a driver, which was thought to be dead, commits meanwhile.
        return way != "direct" and slept
    allowed = [kind for fault, kinds in ERRORS.items() if struck[fault] for kind in kinds]
    if isinstance(error, PRECISE):
        return type(error) in allowed
    return isinstance(error, tuple(allowed))
