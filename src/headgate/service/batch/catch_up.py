"""Batches without new rows: they compute what waits, when nothing comes that would."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from headgate import logs
from headgate.service.batch.processor import BatchProcessor
from headgate.service.service import Service

log = logs.logger("headgate.service")
IDLE_S = 1.0
"""How long no batch was committed until one is run without new rows."""


class CatchUp:
    """Whoever runs batches calls `look` often. `nothing` makes rows of a batch that has none."""

    def __init__(
        self,
        service: Service,
        processor: BatchProcessor,
        nothing: Callable[[], Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service, self._processor, self._nothing, self._clock = service, processor, nothing, clock
        self._batch, self._since = -1, clock()

    def look(self) -> bool:
        """Run a batch if rows wait and none has come for a while; whether it did."""
        batch, now = self._service.last_batch, self._clock()
        if batch != self._batch:
            self._batch, self._since = batch, now
        if now - self._since < IDLE_S or not self._service.usage.waiting or self._service.pace.holds():
            return False
        self._since = now
        try:
            return self._processor.catch_up(self._nothing())
        except Exception as error:  # rows wait on; batches with rows tell whoever runs the service
            log.warning("what waits could not be computed: %s", error)
            return False
