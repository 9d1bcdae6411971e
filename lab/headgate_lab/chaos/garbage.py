"""When cyclic garbage is collected: every few histories, instead of whenever many objects were made."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY = 100
"""Histories between two collections."""


@contextmanager
def rarely_collected() -> Iterator[Callable[[], None]]:
    """Yields what is called after each history. What was there before is not looked at again."""
    played = 0

    def collect() -> None:
        nonlocal played
        played += 1
        if played % EVERY == 0:
            gc.collect()

    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield collect
    finally:
        gc.enable()
        gc.unfreeze()
