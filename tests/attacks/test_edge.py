"""What a stranger without a token, or a tenant with one, sends to tie the service up."""

import json
import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from tests.sql.world import rows_of

import headgate as hg
from headgate.errors import AccessDenied, QuotaExceeded
from headgate.service.edge_limits import EdgeLimits
from headgate.service.http.background import listening
from headgate.service.http.server import most_connections


def connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=20)


def answered(connection: socket.socket) -> bytes:
    """What the service sends before it closes the connection."""
    whole = b""
    while part := connection.recv(1 << 16):
        whole += part
    return whole


@pytest.mark.parametrize("path", ["/queries", "/queries/bulk", "/sources/alpha/events", "/nowhere"])
def test_a_stranger_is_refused_before_the_body_is_read(served, path) -> None:
    sent, chunk = 0, b"10000\r\n" + b"[" * (1 << 16) + b"\r\n"
    with connected(served.url) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode())
        try:
            while sent < 600 << 20:
                connection.sendall(chunk)
                sent += len(chunk)
        except OSError:
            pass
    assert sent < 64 << 20, "the connection was closed long before the body's end"


def test_a_stranger_is_told_that_a_token_is_needed(served) -> None:
    with httpx.Client(base_url=served.url) as http:
        answer = http.post("/queries", content=b"x" * (200 << 10))
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "token" in answer.json()["message"]
    with hg.service.Client(served.url, "guess") as stranger, pytest.raises(AccessDenied, match="token"):
        stranger.push("alpha", [{"time": 1}] * 10_000)


def test_a_body_is_bounded_whether_it_says_its_size_or_not(local) -> None:
    limits = EdgeLimits(body_bytes=1000, bulk_bytes=10_000)
    headers = {"Authorization": f"Bearer {local.token}"}
    with listening(local.service, limits=limits) as url, httpx.Client(base_url=url, headers=headers) as http:
        for path, most in {"/queries": 1000, "/queries/bulk": 10_000}.items():
            for content in (b" " * (most + 1), (b" " * 100 for _ in range(most // 100 + 1))):
                answer = http.post(path, content=content)
                assert (answer.status_code, answer.json()["error"]) == (413, "too-large")
                assert str(most) in answer.json()["message"]
        body = json.dumps({"sql": "SELECT x FROM alpha"}).encode()
        assert http.post("/queries", content=body, headers={"content-type": "application/json"}).is_success


def test_all_bodies_together_are_bounded_and_their_room_is_given_back(local) -> None:
    headers = {"Authorization": f"Bearer {local.token}", "content-type": "application/json"}
    body = json.dumps({"queries": [{"sql": "SELECT x FROM alpha"}] * 1_000}).encode()
    limits = EdgeLimits(bodies_bytes=4 * (len(body) + 100))
    with listening(local.service, limits=limits) as url, httpx.Client(base_url=url, headers=headers) as http:
        for _ in range(3):
            assert http.post("/queries/bulk", content=body).is_success
            busy = http.post("/queries/bulk", content=body * 2)
            assert (busy.status_code, busy.headers["retry-after"]) == (429, "1")


def test_headers_and_bodies_that_do_not_come_are_given_up(local) -> None:
    with listening(local.service, limits=EdgeLimits(header_s=0.2, body_s=0.2)) as url:
        with connected(url) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost:")
            assert answered(connection) == b""
        with connected(url) as silent:
            assert answered(silent) == b""
        with connected(url) as connection:
            token = f"Authorization: Bearer {local.token}"
            head = f"POST /queries HTTP/1.1\r\nHost: x\r\n{token}\r\nContent-Length: 10\r\n\r\n["
            connection.sendall(head.encode())
            assert b"408" in answered(connection).split(b"\r\n")[0]
        with connected(url) as second:  # a request, and then half of another
            second.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            second.sendall(b"GET /health HTTP/1.1\r\nHost:")
            assert answered(second).startswith(b"HTTP/1.1 200")


def test_half_sent_headers_take_nobodys_place(local) -> None:
    limits = EdgeLimits(connections=50, header_s=600)
    with listening(local.service, limits=limits) as url, ExitStack() as stack:
        for _ in range(200):
            connection = stack.enter_context(connected(url))
            connection.sendall(b"GET /health HTTP/1.1\r\nHost:")
        for _ in range(20):
            assert httpx.get(f"{url}/health").json()["ok"]


def test_connections_leave_file_descriptors_for_the_rest() -> None:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = most_connections(EdgeLimits(connections=1 << 30))
    assert 0 < most < resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert soft <= resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_a_tenant_has_a_bounded_number_of_streams(local) -> None:
    (number,) = local.add("SELECT x FROM alpha")
    local.feed(rows_of(np.random.default_rng(1), 20))
    with listening(local.service, limits=EdgeLimits(tails=2)) as url:
        with hg.service.Client(url, local.token) as client:
            tails = [client.tail(number) for _ in range(3)]
            assert [next(tails[i])["query"] for i in range(2)] == [number, number]
            with pytest.raises(QuotaExceeded, match="2 streams"):
                next(tails[2])
            for tail in tails:
                tail.close()  # type: ignore[attr-defined]
        with pytest.raises(hg.errors.NotFound), hg.service.Client(url, local.token) as client:
            next(client.tail(99))
