"""Python's collector of garbage leaves alone what stays: it would look at all of it again and again."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


def settled() -> None:
    """Take what a process has when it begins to serve (modules, queries) as there to stay: the collector looks at it no
    more. It is freed as always when nothing refers to it, but for cycles. For a process that serves, once.
    """
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # modules are freed as cycles when the process ends


@contextmanager
def collecting_later() -> Iterator[None]:
    """In the block, cycles are not collected. Other objects are freed as always."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
