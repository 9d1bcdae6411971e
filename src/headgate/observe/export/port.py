"""Metrics for Prometheus on an HTTP port of this process: `start(metrics_port=9108)`.

The queries of a process may share a port. It stays open until the process ends, so that a query that failed
is seen.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from headgate.errors import ConfigError
from headgate.observe.events import QueryEvent
from headgate.observe.export.collected import Collected
from headgate.observe.exposition import CONTENT_TYPE


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10
    """Seconds for a request to arrive."""

    def do_GET(self) -> None:
        known = self.path.partition("?")[0] in ("/metrics", "/")
        body = self.server.collected.text().encode() if known else b"metrics are at /metrics\n"
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", CONTENT_TYPE if known else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """A scrape is no news."""


class _Server(ThreadingHTTPServer):
    address_family = socket.AF_INET
    daemon_threads = True
    allow_reuse_address = True

    def server_bind(self) -> None:
        """Bind, without the look-up of this machine's name that `HTTPServer` does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.server_address[1]

    def __init__(self, host: str, port: int) -> None:
        super().__init__((host, port), _Handler)
        self.collected = Collected()
        self.thread = threading.Thread(target=self.serve_forever, name="headgate-metrics", daemon=True)
        self.thread.start()


_servers: dict[tuple[str, int], _Server] = {}
_lock = threading.Lock()


class Port:
    """A listener that shows metrics on a port; 0 takes a free one. All of a process with the same port
    show the same metrics.
    """

    def __init__(self, port: int, host: str = "") -> None:
        if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port < 1 << 16:
            raise ConfigError(
                f"metrics_port={port!r} is not a port: give a number from 0 to 65535, such as metrics_port=9108; 0 takes a free one"
            )
        with _lock:
            self._server = _servers.get((host, port)) or _opened(host, port)
            self.port = int(self._server.server_address[1])
            _servers[host, self.port] = self._server

    def __call__(self, event: QueryEvent) -> None:
        """Take in what a query tells."""
        self._server.collected(event)

    def __repr__(self) -> str:
        return f"Port({self.port})"

    def close(self) -> None:
        """Close the port, for all who use it."""
        with _lock:
            for place in [place for place, server in _servers.items() if server is self._server]:
                del _servers[place]
        self._server.shutdown()
        self._server.server_close()
        self._server.thread.join()


def _opened(host: str, port: int) -> _Server:
    try:
        return _Server(host, port)
    except OSError as error:
        raise ConfigError(
            f"metrics_port={port} cannot be opened: {error.strerror or error}. Another process may have it: give another port, or "
            "0 for a free one, which query.metrics_port then names"
        ) from error
