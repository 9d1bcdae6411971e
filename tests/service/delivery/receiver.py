"""A receiver of webhooks on loopback that can misbehave, and what deliveries are tested with."""

import ipaddress
import json
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa

from headgate.service.delivery.desk import Desk
from headgate.service.delivery.dispatch import Dispatcher
from headgate.service.targets_config import Allowed, Webhooks

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
LOCAL = Webhooks(http=True, networks=LOOPBACK, seconds=5, give_up_s=3600)


class Receiver:
    """Takes requests. `mood` says how: a status, or a function that gets the handler."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.mood = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
                if callable(outer.mood):
                    return outer.mood(self)
                self.send_response(outer.mood)
                self.send_header("Location", outer.url)
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass  # the service closes connections whenever it likes

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def bodies(self):
        return [json.loads(body) for _, body in self.requests]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def receiving():
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()


def drip(handler) -> None:
    """Send an answer byte by byte, and never the end of its headers."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    try:
        while True:
            handler.wfile.write(b"x")
            time.sleep(0.02)
    except OSError:
        pass


def drop(handler) -> None:
    """Close the connection without an answer."""
    handler.connection.shutdown(socket.SHUT_RDWR)


def huge(handler) -> None:
    """Answer 200, and then send without end."""
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"x" * 65536)
    except OSError:
        pass


def rows(*values, at=0, source=0):
    """Rows of a source of `tests.sql.world`, one second apart, with these numbers as `n`."""
    times = [(at + i) * 1_000_000 for i in range(len(values))]
    return pa.table(
        {
            "source": pa.array([source] * len(values), pa.int32()),
            "time": pa.array(times, pa.timestamp("us")),
            "d0": pa.array([v / 4 for v in values]),
            "v0": pa.array([f"city {v}" for v in values]),
            "l0": pa.array(values, pa.int64()),
        }
    )


def allowing(webhooks=LOCAL, **targets):
    return Allowed(targets, webhooks)


def desk_of(local):
    return Desk(local.service)


def settle(dispatcher: Dispatcher, number: int, most: int = 50) -> None:
    """Take turns of one delivery until it has nothing more to send."""
    for _ in range(most):
        if not dispatcher.step(number):
            return
    raise AssertionError("it never ends")
