"""Many streams of results that wait: one task looks for the next batch, and everyone else is answered."""

import asyncio
import resource
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, cast

import httpx
import numpy as np
import pytest
from tests.attacks.test_edge import connected
from tests.sql.world import rows_of

from headgate.service.http.app import create_app
from headgate.service.http.tails import Tails
from headgate.service.service import Service


def test_one_task_looks_for_a_batch_however_many_wait() -> None:
    service: Any = SimpleNamespace(last_batch=0)
    tails = Tails(cast("Service", service), most=1)

    async def many() -> list[int]:
        before = len(asyncio.all_tasks())
        waiting = [asyncio.create_task(tails.batch_after(0)) for _ in range(100)]
        await asyncio.sleep(0.01)
        assert len(asyncio.all_tasks()) == before + len(waiting) + 1
        waiting[0].cancel()
        service.last_batch = 7
        seen = await asyncio.gather(*waiting[1:])
        await asyncio.sleep(0.3)
        assert len(asyncio.all_tasks()) == before, "the task ends with those who wait"
        return seen

    assert asyncio.run(many()) == [7] * 99


def asked(app, path, token, begun, name):
    """A GET request without a network; `begun` gets its name when its answer begins."""
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"authorization", f"Bearer {token}".encode())], "client": ("127.0.0.1", 1), "scheme": "http",
        "http_version": "1.1", "server": ("x", 80), "state": {},
    }  # fmt: skip
    body = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive():
        return body.pop() if body else await asyncio.Event().wait()

    async def send(message) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200, message
            begun.append(name)

    return asyncio.create_task(app(scope, receive, send))


def test_streams_opened_at_once_let_others_pass(local) -> None:
    """Many streams of one tenant are opened a few at a time, so few begin before what others ask for after them."""
    (number,) = local.add("SELECT x FROM alpha")
    token, streams = local.service.add_tenant("bob"), 400
    local.service.running = True  # or else /ready is 503
    others = {"/health": "", "/ready": "", "/sources": token, "/queries": token}

    async def ask() -> list[str]:
        app, begun = create_app(local.service), list[str]()
        tasks = [
            asked(app, f"/queries/{number}/stream", local.token, begun, "stream") for _ in range(streams)
        ]
        tasks += [asked(app, path, token, begun, path) for path, token in others.items()]
        async with asyncio.timeout(60):
            while len(begun) < len(tasks):
                await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return begun

    begun = asyncio.run(ask())
    assert begun.count("stream") == streams, "all of them are opened"
    before = {path: begun[: begun.index(path)].count("stream") for path in others}
    assert max(before.values()) <= streams // 4, before


@pytest.mark.parametrize("count", [100, pytest.param(2000, marks=pytest.mark.full)])
def test_streams_that_wait_stall_nobody(served, count) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < 3 * count + 1000:
        pytest.skip(f"needs {3 * count + 1000} file descriptors")
    (number,) = served.add("SELECT x FROM alpha")
    head = f"GET /queries/{number}/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.token}\r\n\r\n"
    with ExitStack() as stack:
        tails = [stack.enter_context(connected(served.url)) for _ in range(count)]
        for tail in tails:
            tail.sendall(head.encode())
        for tail in tails:
            assert b"200 OK" in tail.recv(1 << 12)
        assert httpx.get(f"{served.url}/health", timeout=30).json()["ok"]
        served.feed(rows_of(np.random.default_rng(1), 50))
        for tail in tails:
            got = b""
            while b"event: results" not in got:
                part = tail.recv(1 << 16)
                assert part, "the stream ended"
                got += part
        assert httpx.get(f"{served.url}/health", timeout=30).json()["ok"]
