"""A schema registry over HTTP in a thread of its own: as much of Confluent's protocol as clients use to
register schemas and to read them.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class SchemaRegistry:
    """Schemas by id, and subjects with their versions. `user` asks for a name and a password; `status`
    makes every request fail; `moved_to` sends clients to another address.
    """

    def __init__(self, user: str | None = None) -> None:
        self.user, self.status, self.moved_to = user, 0, ""
        self.asked: list[str] = []
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self._start(0)

    def _start(self, port: int) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def open(self) -> None:
        """Come back after `close`, under the same address."""
        self._start(self.port)

    def register(self, subject: str, schema: Any, kind: str = "AVRO", references: Any = ()) -> int:
        """Register a schema as the newest of a subject, and return its id."""
        entry = {
            "schema": schema if isinstance(schema, str) else json.dumps(schema),
            "schemaType": kind,
            "references": list(references),
        }
        if entry not in self.schemas:
            self.schemas.append(entry)
        number = self.schemas.index(entry) + 1
        self.subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            number = int(found[1])
            if not 1 <= number <= len(self.schemas):
                return 404, {"error_code": 40403, "message": "Schema not found"}
            return 200, _without_default(self.schemas[number - 1])
        if found := re.fullmatch(r"/subjects/([^/]+)/versions/(\d+|latest)", path):
            subject = unquote(found[1])
            versions = self.subjects.get(subject)
            if versions is None:
                return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            version = len(versions) if found[2] == "latest" else int(found[2])
            if not 1 <= version <= len(versions):
                return 404, {"error_code": 40402, "message": f"Version {version} not found."}
            number = versions[version - 1]
            return 200, {
                "subject": subject, "version": version, "id": number, **_without_default(self.schemas[number - 1]),
            }  # fmt: skip
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                status, body = registry.answer(urlsplit(self.path).path)
                given = (self.headers["Authorization"] or "").removeprefix("Basic ")
                if registry.user is not None and base64.b64decode(given).decode() != registry.user:
                    status, body = 401, {"error_code": 401, "message": "Unauthorized"}
                if registry.status:
                    status, body = registry.status, {"error_code": registry.status, "message": "no"}
                data = json.dumps(body).encode()
                if registry.moved_to:
                    status = 302
                self.send_response(status)
                if registry.moved_to:
                    self.send_header("Location", registry.moved_to + self.path)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        return Handler


def _without_default(entry: dict[str, Any]) -> dict[str, Any]:
    """Confluent leaves out the type of Avro schemas, and references if there are none."""
    return {
        name: value
        for name, value in entry.items()
        if value != [] and (name != "schemaType" or value != "AVRO")
    }


def framed(number: int, data: bytes, *indexes: int) -> bytes:
    """A value in Confluent's wire format; `indexes` are those of a message of Protobuf, zigzag-encoded."""
    return b"\0" + number.to_bytes(4, "big") + bytes(indexes) + data
