"""The lock of a service."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headgate.service.registry import Registry


class RegistryLock:
    """A reentrant lock whose holder sees in memory exactly what is durable.

    A change updates memory before the registry has it. If the registry then refuses it, the next holder of the lock
    reads everything from the registry again first.
    """

    def __init__(self, registry: Registry, reload: Callable[[], None]) -> None:
        self._lock = threading.RLock()
        self._registry, self._reload = registry, reload

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            if self._registry.in_doubt:
                self._reload()
                self._registry.in_doubt = False
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()
