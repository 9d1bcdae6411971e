"""A standby rehearses: a small service of its own runs one batch, so that all code is loaded before it is needed."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from headgate import logs
from headgate.service.service import Service
from headgate.service.settings import Settings
from headgate.service.tenants import OPERATOR

log = logs.logger("headgate.service")
LONGEST_S = 60.0
TEXT = "SELECT city, avg(temp) AS temp FROM weather GROUP BY city, TUMBLE(time, INTERVAL '1 second')"


def rehearse(start: Callable[[Service, ExitStack], None]) -> bool:
    """Run a batch of a service that nobody else sees; whether one was committed. A failure is told and harms nothing."""
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-")))
            service = Service(Settings(folder, servers=2))
            stack.callback(service.close)
            service.add_sources(
                OPERATOR, [{"name": "weather", "columns": {"city": "varchar", "temp": "double"}}]
            )
            service.register(OPERATOR, [(TEXT, "")])
            start(service, stack)
            service.push_events(OPERATOR, "weather", [{"time": 0, "city": "Rome", "temp": 20.0}])
            deadline = time.monotonic() + LONGEST_S
            while service.last_batch < 0 and not service.failures and time.monotonic() < deadline:
                time.sleep(0.05)
            if service.last_batch < 0:
                log.warning("the rehearsal committed no batch: %s", service.failure or "it took too long")
            return service.last_batch >= 0
    except Exception as error:
        log.warning("the rehearsal failed: %s", error)
        return False
