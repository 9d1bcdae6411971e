"""Webhooks against a real server that fails, is slow, redirects, drops connections or never stops talking."""

import socket
import ssl
import threading
from dataclasses import replace

import pytest
from tests.service.delivery.receiver import LOCAL, drip, drop, huge, receiving

from headgate.errors import ConfigError, SinkFailed
from headgate.service.delivery.addresses import Forbidden
from headgate.service.delivery.webhook import EVENT, SIGNATURE, Gone, Post, sign, verify


@pytest.fixture
def receiver():
    with receiving() as receiver:
        yield receiver


def test_a_body_arrives_as_it_is(receiver) -> None:
    Post(LOCAL)(f"{receiver.url}?a=1", b'{"x": 1}', {EVENT: "e-1"})
    ((headers, body),) = receiver.requests
    assert body == b'{"x": 1}'
    assert headers["headgate-id"] == "e-1"
    assert headers["host"] == f"127.0.0.1:{receiver.port}"


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_a_status_that_is_not_good_is_a_failure(receiver, status) -> None:
    receiver.mood = status
    with pytest.raises(SinkFailed, match=f"answered {status}"):
        Post(LOCAL)(receiver.url, b"{}", {})


def test_gone_is_for_good(receiver) -> None:
    receiver.mood = 410
    with pytest.raises(Gone):
        Post(LOCAL)(receiver.url, b"{}", {})


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(receiver, status) -> None:
    receiver.mood = status
    with pytest.raises(SinkFailed, match="not followed"):
        Post(LOCAL)(receiver.url, b"{}", {})
    assert len(receiver.requests) == 1


def test_a_receiver_that_drips_is_left_when_the_time_is_over(receiver) -> None:
    receiver.mood = drip
    with pytest.raises(SinkFailed, match=r"within 0\.2 s"):
        Post(replace(LOCAL, seconds=0.2))(receiver.url, b"{}", {})


def test_a_receiver_that_never_reads_is_left_when_the_time_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(SinkFailed, match=r"within 0\.2 s"):
            Post(replace(LOCAL, seconds=0.2))(url, b"x" * (64 << 20), {})


def test_a_dropped_connection_is_a_failure(receiver) -> None:
    receiver.mood = drop
    with pytest.raises(SinkFailed, match="failed"):
        Post(LOCAL)(receiver.url, b"{}", {})


def test_an_answer_without_end_costs_nothing(receiver) -> None:
    receiver.mood = huge
    Post(LOCAL)(receiver.url, b"{}", {})


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(SinkFailed, match="ConnectionRefused"):
        Post(LOCAL)(f"http://127.0.0.1:{port}/", b"{}", {})


def test_a_name_that_changes_its_address_is_not_followed(receiver) -> None:
    """DNS rebinding: the address that was checked is the one that is used, and each name is asked for once."""
    asked = []

    def find(host, port):
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    post = Post(LOCAL, find=find)
    post(f"http://rebind.example:{receiver.port}/", b"{}", {})
    assert asked == ["rebind.example"]
    with pytest.raises(Forbidden):
        post(f"http://rebind.example:{receiver.port}/", b"{}", {})
    assert len(receiver.requests) == 1
    assert receiver.requests[0][0]["host"] == f"rebind.example:{receiver.port}"


def test_an_inner_address_is_never_connected_to(receiver) -> None:
    with pytest.raises(Forbidden, match="not public"):
        Post(replace(LOCAL, networks=()))(receiver.url, b"{}", {})
    assert receiver.requests == []


def test_a_proxy_of_the_environment_is_not_used(receiver, monkeypatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    Post(LOCAL)(receiver.url, b"{}", {})


def test_a_certificate_must_be_valid() -> None:
    """A server that speaks no TLS, or has a certificate of its own making, gets nothing."""
    with receiving() as plain, pytest.raises(SinkFailed, match="failed"):
        Post(LOCAL)(plain.url.replace("http:", "https:"), b"{}", {})


def test_the_host_is_asked_by_its_name_over_tls() -> None:
    """The connection goes to the address, and the certificate is that of the name."""
    named = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda sock, name, ctx: named.append(name)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def accept() -> None:
            taken, _ = server.accept()
            with taken, pytest.raises((ssl.SSLError, OSError)):
                context.wrap_socket(taken, server_side=True)

        thread = threading.Thread(target=accept)
        thread.start()
        post = Post(LOCAL, find=lambda host, port: ["127.0.0.1"])
        with pytest.raises(SinkFailed):
            post(f"https://hooks.example.com:{port}/", b"{}", {})
        thread.join()
    assert named == ["hooks.example.com"]


def test_a_signature_holds_for_this_body_and_time_only() -> None:
    header = sign(["whsec_a"], b"body", 1000)
    verify("whsec_a", b"body", header, now=1100)
    for secret, body, given, now in [
        ("whsec_b", b"body", header, 1000),
        ("whsec_a", b"bodY", header, 1000),
        ("whsec_a", b"body", header.replace("t=1000", "t=1001"), 1000),
        ("whsec_a", b"body", header, 2000),
        ("whsec_a", b"body", "", 1000),
        ("whsec_a", b"body", "t=x,v1=1", 1000),
    ]:
        with pytest.raises(ConfigError, match=SIGNATURE):
            verify(secret, body, given, now=now)


def test_while_a_secret_is_rotated_each_of_the_two_fits() -> None:
    header = sign(["whsec_new", "whsec_old"], b"body", 1000)
    verify("whsec_new", b"body", header, now=1000)
    verify("whsec_old", b"body", header, now=1000)
    for secret, given in [("whsec_other", header), ("whsec_old", header.rpartition(",")[0])]:
        with pytest.raises(ConfigError, match=SIGNATURE):
            verify(secret, b"body", given, now=1000)
