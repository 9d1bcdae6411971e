"""The clients of `bench tenants`, in processes of their own: what they take is not taken from the service's interpreter.

A process obeys commands that come through a pipe. Good tenants push one event at a time, and read until its result is
there. The hostile tenant sends large pushes, one after the other, whatever the service answers.
"""

from __future__ import annotations

import json
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any

import httpx
import numpy as np

from headgate.service.http.client import Client

MOST_WAIT_S = 60.0
PAUSE_S = 0.05
"""Between two hostile pushes."""
BODIES = 4
"""How many different hostile bodies there are."""
Good = tuple[str, str, int]
"""(Token, source, query)."""


@contextmanager
def clients(target: Callable[..., None], *arguments: Any) -> Iterator[Connection]:
    """A process of clients while the block runs, and the pipe to it."""
    spawn = multiprocessing.get_context("spawn")
    mine, theirs = spawn.Pipe()
    process = spawn.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        mine.recv()  # it is ready
        yield mine
    finally:
        mine.close()
        process.join(10)
        if process.is_alive():
            process.kill()


def good(pipe: Connection, url: str, tenants: Sequence[Good], readers: int) -> None:
    """Push and read for so many seconds whenever asked; answers with how long each result took, or with what went wrong."""
    mine = [(Client(url, token, timeout=120), source, number) for token, source, number in tenants]
    parts = [part for part in (mine[number::readers] for number in range(readers)) if part]
    pipe.send("ready")
    with suppress(EOFError):
        while True:
            seconds = pipe.recv()
            waits, failures = list[float](), list[str]()
            threads = [
                threading.Thread(target=_read, args=(part, time.monotonic() + seconds, waits, failures))
                for part in parts
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            pipe.send((waits, failures))


def _read(
    mine: Sequence[tuple[Client, str, int]], end: float, waits: list[float], failures: list[str]
) -> None:
    try:
        at = 0
        while time.monotonic() < end:
            waits.append(_answered(*mine[at % len(mine)]))
            at += 1
    except Exception as error:
        failures.append(repr(error))


def _answered(client: Client, source: str, number: int) -> float:
    """Seconds from a push to its result."""
    marker = time.time_ns() % (1 << 50)
    rows, cursor = client.results(number, None)
    while rows:  # what there is already
        rows, cursor = client.results(number, cursor)
    began = time.monotonic()
    client.push(source, [{"time": datetime.now(UTC).isoformat(), "x": 1.0, "n": marker, "text": "t"}])
    while time.monotonic() < began + MOST_WAIT_S:
        rows, cursor = client.results(number, cursor)
        if any(row["values"]["n"] == marker for row in rows):
            return time.monotonic() - began
        time.sleep(0.02)
    return MOST_WAIT_S


def hostile(pipe: Connection, url: str, token: str, rows: int) -> None:
    """Push from one command to the next; then answer how many pushes were accepted, and how many refused."""
    rng, when = np.random.default_rng(7), datetime.now(UTC).isoformat(timespec="microseconds")
    bodies = [
        json.dumps(
            {
                "events": [
                    {"time": when, "x": float(x), "n": int(n), "text": "a" * 2_000}
                    for x, n in zip(rng.random(rows), rng.integers(0, 1 << 40, rows), strict=True)
                ]
            }
        ).encode()
        for _ in range(BODIES)
    ]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    pipe.send("ready")
    with suppress(EOFError), httpx.Client(headers=headers, timeout=120) as http:
        while True:
            pipe.recv()
            accepted = refused = 0
            while not pipe.poll():
                now = datetime.now(UTC).isoformat(timespec="microseconds")
                body = bodies[(accepted + refused) % BODIES].replace(when.encode(), now.encode())
                try:
                    ok = http.post(f"{url}/sources/flood/events", content=body).status_code == 202
                except httpx.TransportError:
                    ok = False
                accepted, refused = accepted + ok, refused + (not ok)
                time.sleep(PAUSE_S)
            pipe.recv()
            pipe.send((accepted, refused))
