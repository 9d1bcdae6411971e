"""Whoever pushes more than batches take is slowed down, and nobody else; and how far batches are behind is told."""

import asyncio
import json
import socket
import threading
import time
from dataclasses import dataclass

import httpx
import pyarrow as pa
import pytest
from tests.service.local import Local, local_job
from tests.service.pushed import Pushed

import headgate as hg
from headgate.errors import Backlogged, CheckpointError, QuotaExceeded
from headgate.service.batch.loop import Loop
from headgate.service.edge_limits import EdgeLimits
from headgate.service.flow import Flow
from headgate.service.http.background import listening
from headgate.service.http.push_room import OF_TENANT, PushRoom
from headgate.service.queries import Query


def looped(local):
    return Loop(local.service, local.processor, [Pushed(local.service)], pa.concat_tables)


@dataclass
class Narrow:
    """A service with little room, behind a port."""

    local: Local
    url: str

    @property
    def token(self):
        return self.local.token

    def step(self) -> None:
        looped(self.local).step()


@pytest.fixture
def narrow(tmp_path):
    local = Local(tmp_path, flow=Flow(tenant_backlog_rows=50, batch_rows=20, lag_s=0.001))
    with listening(local.service) as url:
        yield Narrow(local, url)
    local.service.close()


def events(count):
    return [{"time": 1000.0 + n, "n": n} for n in range(count)]


def test_a_push_beyond_the_bound_gets_429_and_a_time_to_come_again(narrow) -> None:
    http = httpx.Client(base_url=narrow.url, headers={"Authorization": f"Bearer {narrow.token}"}, timeout=60)
    with http:
        assert http.post("/sources/alpha/events", json={"events": events(45)}).status_code == 202
        refused = http.post("/sources/beta/events", json={"events": events(10)})
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) >= 1
        assert refused.json()["error"] == "Backlogged"
        assert "tenant_backlog_rows" in refused.json()["message"]
        lag = http.get("/ready").json()["lag"]
        assert lag["lagging"]
        assert lag["rows"] == 45
        assert "alpha" not in http.get("/ready").text, "strangers learn no names"
        metrics = http.get("/metrics").text
        assert "headgate_service_backlog_rows 45" in metrics
        assert "headgate_service_lagging 1" in metrics
        narrow.step()
        assert http.post("/sources/beta/events", json={"events": events(10)}).status_code == 202


def test_the_client_waits_as_long_as_it_is_told_and_no_longer_than_it_wants(narrow, monkeypatch) -> None:
    slept = list[float]()
    monkeypatch.setattr("headgate.service.http.client.time.sleep", slept.append)
    with hg.service.Client(narrow.url, narrow.token, patience_s=3.5) as client:
        client.push("alpha", events(50))
        with pytest.raises(QuotaExceeded, match="wait for a batch"):
            client.push("alpha", events(5))
        assert slept == [1.0, 1.0, 1.0]
        monkeypatch.setattr("headgate.service.http.client.time.sleep", lambda _: narrow.step())
        assert client.push("alpha", events(5)) == 5
    with hg.service.Client(narrow.url, narrow.token, patience_s=0) as client:
        client.push("alpha", events(15))
        with pytest.raises(QuotaExceeded):
            client.push("alpha", events(15))


def test_a_push_wakes_the_loop_and_an_idle_loop_sleeps(local, monkeypatch) -> None:
    (number,) = local.add("SELECT n FROM alpha")
    loop, steps = looped(local), list[bool]()
    real = loop.step

    def step(*, polls: bool) -> bool:
        steps.append(polls)
        return real(polls=polls)

    monkeypatch.setattr(loop, "step", step)
    assert Loop._until(loop, 0.0) is None, "without other streams it sleeps until it is woken"
    loop.start()
    for _ in range(3):
        local.service.push_events(local.ann, "alpha", events(2))
        deadline = time.monotonic() + 60
        while local.service.lag()["rows"]:
            assert time.monotonic() < deadline
            time.sleep(0.005)
    loop.stop()
    assert len(steps) <= 20
    assert sum(local.answers(number).values()) == 6


def test_a_tenant_with_a_backlog_does_not_delay_another(tmp_path) -> None:
    local = Local(tmp_path, flow=Flow(batch_rows=20))
    bob = local.service.authenticate(local.service.add_tenant("bob"))
    local.service.add_sources(bob, [{"name": "bobs", "columns": {"n": "bigint"}}])
    local.add("SELECT n FROM alpha")
    (answer,) = local.service.register(bob, [("SELECT n FROM bobs", "")])
    assert isinstance(answer, Query)
    local.service.push_events(local.ann, "alpha", events(500))
    local.service.push_events(bob, "bobs", events(5))
    looped(local).step()
    assert len(local.service.read(bob, answer.id)[0]) == 5
    assert local.service.push_log.backlog_of("ann")[0] == 485
    local.service.close()


def test_pushes_that_fail_are_tried_again_and_the_lag_grows(local) -> None:
    (number,) = local.add("SELECT n FROM alpha")
    local.service.push_events(local.ann, "alpha", events(3))

    def fails(rows, snapshot, task):
        raise CheckpointError("a machine was lost")

    local.processor._job = fails
    loop = looped(local)
    loop.step()
    assert local.service.failure == "a machine was lost"
    assert local.service.lag()["streams"][""]["rows"] == 3
    local.processor._job = local_job
    loop._streams[""].again_at = 0.0
    loop.step()
    assert local.service.failure is None
    assert sum(local.answers(number).values()) == 3
    assert local.service.lag()["rows"] == 0
    loop.stop()


def test_many_who_push_at_once_lose_nothing_and_stay_within_the_bound(tmp_path) -> None:
    local = Local(tmp_path, flow=Flow(tenant_backlog_rows=60, batch_rows=40, pause_s=0))
    (number,) = local.add("SELECT n FROM alpha")
    loop, accepted, lock = looped(local), [0], threading.Lock()
    loop.start()

    def push() -> None:
        for _ in range(10):
            try:
                local.service.push_events(local.ann, "alpha", events(7))
            except Backlogged:
                continue
            with lock:
                accepted[0] += 7

    threads = [threading.Thread(target=push) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
        assert local.service.lag()["rows"] <= 60
    deadline = time.monotonic() + 60
    while local.service.lag()["rows"]:
        assert time.monotonic() < deadline, local.service.failure
        time.sleep(0.01)
    loop.stop()
    assert sum(local.answers(number, 1000).values()) == accepted[0] > 0
    local.service.close()


def test_a_tenant_that_pushes_more_rows_a_second_than_it_may_gets_429_and_others_do_not(served) -> None:
    root = served.service.add_tenant("root", admin=True)
    bob = served.service.authenticate(served.service.add_tenant("bob"))
    served.service.add_sources(bob, [{"name": "bobs", "columns": {"n": "bigint"}}])
    with hg.service.Client(served.url, root) as admin:
        assert admin.set_limits("ann", rows_s=5)["rows_s"] == 5
        http = httpx.Client(
            base_url=served.url, headers={"Authorization": f"Bearer {served.token}"}, timeout=60
        )
        with http:
            first = http.post("/sources/alpha/events", json={"events": events(400)})
            assert first.status_code == 202  # a push is not divided
            refused = http.post("/sources/beta/events", content=b"not even read")
            assert refused.status_code == 429
            assert 60 <= int(refused.headers["Retry-After"]) <= 70
            assert "rows_s" in refused.json()["message"]
            assert served.service.push_log.backlog()["rows"] == 400
        with pytest.raises(Backlogged, match="rows_s"):
            served.service.push_events(served.ann, "alpha", events(1))
        assert served.service.push_events(bob, "bobs", events(50)) == 50
        every = {one["tenant"]: one for one in admin.usage()["tenants"]}
        assert every["ann"]["rows_s"] > 5 == every["ann"]["limits"]["rows_s"]
        admin.set_limits("ann", rows_s=None)
        time.sleep(0.01)  # at 100,000 rows a second
        assert served.service.push_events(served.ann, "alpha", events(1)) == 1


def address_of(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


def test_a_push_without_room_is_not_read_while_it_waits_and_goes_on_when_there_is_room(tmp_path) -> None:
    """The body is never asked for (`Expect: 100-continue`), until a batch has made room."""
    local = Local(tmp_path, flow=Flow(tenant_backlog_rows=50, batch_rows=50))
    body = json.dumps({"events": events(10)}).encode()
    with listening(local.service, limits=EdgeLimits(room_s=60.0)) as url:
        with hg.service.Client(url, local.token) as client:
            client.push("alpha", events(50))
        with socket.create_connection(address_of(url), timeout=60) as connection:
            head = (
                f"POST /sources/alpha/events HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {local.token}\r\n"
                f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
            )
            connection.sendall(head.encode())
            connection.settimeout(0.5)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            connection.settimeout(60)
            looped(local).step()
            assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
            connection.sendall(body)
            assert connection.recv(1000).startswith(b"HTTP/1.1 202 ")
    local.service.close()


def test_a_push_without_room_is_refused_unread(tmp_path) -> None:
    local = Local(tmp_path, flow=Flow(tenant_backlog_rows=50))
    with listening(local.service, limits=EdgeLimits(room_s=0.2)) as url:
        with hg.service.Client(url, local.token) as client:
            client.push("alpha", events(50))
        with socket.create_connection(address_of(url), timeout=60) as connection:
            head = (
                f"POST /sources/alpha/events HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {local.token}\r\n"
                "Content-Length: 1000000\r\nExpect: 100-continue\r\n\r\n"
            )
            connection.sendall(head.encode())
            answer = connection.recv(1000)
            assert answer.startswith(b"HTTP/1.1 429 ")
            assert b"retry-after" in answer.lower()
    local.service.close()


def test_one_tenant_has_few_pushes_that_wait_for_room(tmp_path) -> None:
    """The ones beyond are refused at once: what waits never waits for long behind a crowd."""
    local = Local(tmp_path, flow=Flow(tenant_backlog_rows=50))
    room = PushRoom(local.service, EdgeLimits(room_s=60.0))
    tenant = local.service.authenticate(local.token)
    local.service.push_events(tenant, "alpha", events(50))

    async def pushed() -> list[asyncio.Task[None]]:
        def one() -> asyncio.Task[None]:
            return asyncio.create_task(room.wait(tenant, "POST", "/sources/alpha/events", 1000))

        first = [one() for _ in range(OF_TENANT)]
        await asyncio.sleep(0)
        over = [one() for _ in range(3)]
        await asyncio.wait(over)
        waiting = [task for task in first if not task.done()]
        for task in waiting:
            task.cancel()
        assert len(waiting) == OF_TENANT
        return over

    assert all(isinstance(task.exception(), Backlogged) for task in asyncio.run(pushed()))
    local.service.close()
