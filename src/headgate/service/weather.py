"""A source of made-up weather, so that a new service has something to query."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from headgate.errors import HeadgateError
from headgate.service.grants import EVERYONE
from headgate.service.service import Service
from headgate.service.tenants import Tenant

NAME = "weather"
COLUMNS = {"city": "varchar", "temp": "double", "wind": "bigint", "rain": "boolean"}
CITIES = {"Bergen": 8.0, "Cairo": 29.0, "Lima": 19.0, "Oslo": 6.0, "Quito": 15.0, "Zagreb": 12.0}


class Weather:
    """Declares the source, and pushes rows to it every second until it is stopped."""

    def __init__(self, service: Service, owner: Tenant, *, rows_per_second: int = 20, seed: int = 7) -> None:
        self._service, self._owner, self._rows = service, owner, rows_per_second
        self._rng = np.random.default_rng(seed)
        if NAME not in service.sources.by_name:
            service.add_sources(
                owner, [{"name": NAME, "columns": COLUMNS, "delay_s": 2, "rate": rows_per_second}]
            )
            service.grant(owner, NAME, EVERYONE)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-weather", daemon=True)

    def start(self) -> None:
        """Start the thread that pushes."""
        self._thread.start()

    def stop(self) -> None:
        """Stop it, and wait until it has stopped."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(1.0):
            try:
                self._service.push_events(self._owner, NAME, events(self._rng, time.time(), self._rows))
            except HeadgateError:  # the push log or the disk is full: try again in a second
                continue


def events(rng: np.random.Generator, now_s: float, count: int) -> list[dict[str, Any]]:
    """The events of one second."""
    names = list(CITIES)
    made = []
    for i in range(count):
        city = names[int(rng.integers(len(names)))]
        temp = round(float(rng.normal(CITIES[city], 2.0)), 1)
        wind = int(rng.poisson(4))
        made.append(
            {
                "time": now_s - 1 + i / count,
                "city": city,
                "temp": temp,
                "wind": wind,
                "rain": bool(rng.random() < 0.2),
            }
        )
    return made
