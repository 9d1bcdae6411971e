"""Peers that send or take slowly on purpose: they hold nobody else up, and they outlive nothing."""

import json
import socket
import time
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import httpx
import pytest

from headgate.errors import QuotaExceeded
from headgate.service.edge_limits import EdgeLimits
from headgate.service.http.background import listening
from headgate.service.http.bodies import SMALL, Bodies
from headgate.sql.limits import Limits


def opened(url, method, path, token, length, first=b""):
    """A connection that has sent the headers of a request and the beginning of its body."""
    parts = urlsplit(url)
    peer = socket.create_connection((parts.hostname, parts.port), timeout=20)
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    peer.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + first)
    return peer


def answer(peer):
    return int(peer.recv(65_536).split(b" ", 2)[1])


@pytest.mark.parametrize("act", ["revoke", "disable", "remove"])
def test_an_open_request_does_not_outlive_its_token(served, act) -> None:
    token = served.service.add_tenant("bob")
    root = served.service.authenticate(served.service.add_tenant("root", admin=True))
    served.service.add_sources(
        served.service.authenticate(token), [{"name": "mine", "columns": {"x": "bigint"}}]
    )
    body = json.dumps({"events": [{"time": 1, "x": 1}]}).encode()
    make = b'{"label": "after"}'
    with ExitStack() as stack:
        making = stack.enter_context(
            opened(served.url, "POST", "/tenants/bob/tokens", token, len(make), make[:5])
        )
        pushing = stack.enter_context(
            opened(served.url, "POST", "/sources/mine/events", token, len(body), body[:5])
        )
        time.sleep(0.3)  # both are known by their headers
        if act == "revoke":
            served.service.accounts.revoke_token(root, "bob", token.split("_")[1])
        else:
            getattr(served.service.accounts, act)(root, "bob")
        making.sendall(make[5:])
        pushing.sendall(body[5:])
        assert answer(making) in (401, 403)
        assert answer(pushing) in (401, 403)
    assert served.service.push_log.backlog()["rows"] == 0


def test_one_tenant_does_not_fill_the_room_for_bodies(local) -> None:
    limits = EdgeLimits(bulk_bytes=300_000, bodies_bytes=1_000_000)
    bob = local.service.add_tenant("bob")
    with listening(local.service, limits=limits) as url, ExitStack() as stack:
        for _ in range(8):
            peer = opened(url, "POST", "/sources/alpha/events", bob, 290_000, b" " * 200_000)
            stack.enter_context(peer)
        headers = {"Authorization": f"Bearer {local.token}"}
        large = {"events": [{"time": 1, "city": "x" * 9_000}] * 20}
        for _ in range(5):
            assert httpx.post(f"{url}/sources/alpha/events", json=large, headers=headers).status_code == 202


def test_only_the_routes_that_list_things_take_large_bodies() -> None:
    bodies = Bodies(EdgeLimits())
    most = {
        path: bodies.most("POST", path)
        for path in ("/queries", "/queries/bulk", "/sources/a/events", "/x/bulk")
    }
    assert most == {
        "/queries": 1 << 20,
        "/queries/bulk": 64 << 20,
        "/sources/a/events": 64 << 20,
        "/x/bulk": 1 << 20,
    }
    assert [bodies.most(method, "/queries/bulk") for method in ("GET", "HEAD", "DELETE")] == [SMALL] * 3


def test_connections_whose_bodies_do_not_come_make_room(local) -> None:
    with (
        listening(local.service, limits=EdgeLimits(connections=20, header_s=60)) as url,
        ExitStack() as stack,
    ):
        for _ in range(30):
            stack.enter_context(opened(url, "POST", "/queries", local.token, 1000, b"x"))
        headers = {"Authorization": f"Bearer {local.token}"}
        assert httpx.get(f"{url}/health").status_code == 200
        assert httpx.get(f"{url}/me", headers=headers).status_code in (200, 429)


def test_a_peer_that_takes_nothing_is_given_up(local) -> None:
    with listening(local.service, limits=EdgeLimits(send_s=0.3, header_s=60)) as url:
        parts = urlsplit(url)
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            peer.connect((parts.hostname, parts.port))
            peer.settimeout(20)
            peer.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 25)
            time.sleep(1.5)  # it reads nothing meanwhile
            taken = 0
            with suppress(ConnectionResetError):
                while got := len(peer.recv(1 << 16)):
                    taken += got
            assert taken < 25 * len(httpx.get(f"{url}/openapi.json").content)


def test_grants_are_bounded_and_a_second_one_is_none(local) -> None:
    most = Limits().grants
    for number in range(most):
        local.service.grant(local.ann, "alpha", f"t{number}")
    local.service.grant(local.ann, "alpha", "t0")
    with pytest.raises(QuotaExceeded, match="the limit is grants"):
        local.service.grant(local.ann, "alpha", "one_more")
