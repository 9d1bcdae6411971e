"""The server of a live page: the page itself, what is new as JSON, and answers to `what if`.

It listens on this machine alone unless it is told otherwise, answers GET and nothing else, and changes
nothing. The page needs nothing from elsewhere, and its policy (CSP) forbids it.
"""

from __future__ import annotations

import html
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from headgate.errors import ConfigError, HeadgateError, not_installed
from headgate.watch.model import page_view, what_if
from headgate.watch.reader import Reader
from headgate.watch.record import StageRecord, Timing

log = logging.getLogger("headgate.watch")
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
FILES = {f"/{name}": name for name in ("style.css", "page.js", "charts.js", "dom.js")} | {"/": "index.html"}
LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]")
NEAR, FAR = 0.4, 4.0
"""The least seconds between two looks at a checkpoint, on a disk and elsewhere."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self' http://localhost:* http://127.0.0.1:*",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class LiveView:
    """What the page shows now. Any number of threads may ask; one at a time looks at the checkpoint."""

    def __init__(
        self,
        reader: Reader,
        *,
        state: Callable[[], str] = lambda: "",
        timings: Callable[[int], Mapping[int, Timing]] = lambda stage: {},
    ) -> None:
        """`state` and `timings` (of the batches of a stage) are what only the process of the query knows."""
        self.reader, self._state, self._timings = reader, state, timings
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._between = NEAR if reader.local else FAR
        self._known: tuple[object, ...] = ()
        self._version, self._body = 0, b""
        self._new = 0
        self._answers: dict[tuple[object, ...], dict[str, Any]] = {}

    def current(self) -> tuple[str, bytes]:
        """The version of what is known, and all of it as JSON."""
        with self._lock:
            problem = self._look()
            timings = [self._timings(stage) for stage in range(len(self.reader.stages))]
            known = (self._new, self._state(), problem, [max(one, default=None) for one in timings])
            if known != self._known or not self._body:
                view = page_view(self.reader.name, self._records(), now=time.time(), state=self._state())
                self._body = json.dumps({**view, "problem": problem}, allow_nan=False).encode()
                self._known, self._version = known, self._version + 1
            return f'"{self._version}"', self._body

    def _look(self) -> str:
        if time.monotonic() - self._looked < self._between:
            return str(self._known[2]) if self._known else ""
        try:
            self._new += self.reader.look()
            problem = ""
        except HeadgateError as error:
            problem = str(error)
        self._looked = time.monotonic()
        return problem

    def _records(self) -> list[StageRecord]:
        records = self.reader.records() or [StageRecord("a query that has not begun", ())]
        return [replace(one, timings=dict(self._timings(stage))) for stage, one in enumerate(records)]

    def what_if(self, stage: int, policy: str) -> dict[str, Any]:
        """The recorded run of a stage under another policy."""
        with self._lock:
            self._look()
            records, new = self._records(), self._new
        if not 0 <= stage < len(records) or not records[stage].entries:
            raise ConfigError(f"stage {stage} has no batches to replay")
        asked = (stage, policy, new)
        if asked not in self._answers:
            answer = what_if(records[stage], policy)
            self._answers = {known: old for known, old in self._answers.items() if known[2] == new}
            self._answers[asked] = answer
        return self._answers[asked]


class Page:
    """A live page that is being served. It prints its address, and renders in a notebook.

    Law: it only reads; closing it does nothing to the query.
    """

    def __init__(
        self,
        view: LiveView,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        closed: Callable[[], None] = lambda: None,
    ) -> None:
        """Serve the page; port 0 chooses a free one. `closed` is called when it is closed."""
        self._closed = closed
        try:
            self._server = _Server((host, port), partial(_Handler, view=view, host=host))
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {host}:{port}: {error}; choose another port, such as --port {port + 1}"
            ) from error
        shown = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
        self.url = f"http://{shown}:{self._server.server_port}/"
        serve = partial(self._server.serve_forever, poll_interval=0.1)
        self._thread = threading.Thread(target=serve, name="headgate-page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving. Closing twice is harmless."""
        if self.is_open:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._closed()

    @property
    def is_open(self) -> bool:
        """Whether the page is being served."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Wait until the page is closed, for example by Ctrl-C."""
        while self._thread.is_alive():
            self._thread.join(1.0)

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Page({self.url})"

    def _repr_html_(self) -> str:
        url = html.escape(self.url, quote=True)
        return (
            f'<iframe src="{url}?small" title="headgate" style="width:100%;height:360px;border:0"></iframe>'
            f'<p><a href="{url}" target="_blank" rel="noopener">{url}</a></p>'
        )


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error."""
        log.debug("a request of %s failed", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "headgate", ""
    timeout = 60

    def __init__(self, *args: Any, view: LiveView, host: str) -> None:
        self._view, self._host = view, host
        super().__init__(*args)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Requests are not worth a line each."""
        log.debug(format, *args)

    def do_GET(self) -> None:
        """Answer."""
        asked = urlsplit(self.path)
        if not self._is_ours():
            # Another site may let its name point to this machine, to read the page through a browser.
            self._json({"message": "this page is served under its own address only"}, HTTPStatus.FORBIDDEN)
        elif asked.path in FILES:
            name = FILES[asked.path]
            body = files("headgate.watch").joinpath("page", name).read_bytes()
            self._send(body, TYPES[name.rpartition(".")[2]])
        elif asked.path == "/data":
            self._data()
        elif asked.path == "/whatif":
            self._what_if(parse_qs(asked.query))
        else:
            self._json({"message": f"there is no {asked.path}"}, HTTPStatus.NOT_FOUND)

    do_HEAD = do_GET

    def _is_ours(self) -> bool:
        if self._host not in LOCAL:
            return True
        name = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        return name in LOCAL

    def _data(self) -> None:
        tag, body = self._view.current()
        if self.headers.get("If-None-Match") == tag:
            self._send(b"", "application/json", HTTPStatus.NOT_MODIFIED, {"ETag": tag})
        else:
            self._send(body, "application/json", HTTPStatus.OK, {"ETag": tag})

    def _what_if(self, asked: Mapping[str, list[str]]) -> None:
        stage, policy = asked.get("stage", ["0"])[0], asked.get("policy", [""])[0]
        try:
            if not stage.isdecimal():
                raise ConfigError(f"stage={stage!r} is not a number")
            self._json(self._view.what_if(int(stage), policy))
        except HeadgateError as error:
            self._json({"message": str(error)}, HTTPStatus.BAD_REQUEST)
        except ModuleNotFoundError as error:
            missing = not_installed(error, f"the policy {policy}") or error
            self._json({"message": str(missing)}, HTTPStatus.BAD_REQUEST)

    def _json(self, value: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(json.dumps(value, allow_nan=False).encode(), "application/json", status)

    def _send(
        self,
        body: bytes,
        kind: str,
        status: HTTPStatus = HTTPStatus.OK,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **(more or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
