"""A client of the query service: `hg.Client("http://127.0.0.1:8620", token)`.

number = client.register("SELECT city, avg(temp) FROM weather GROUP BY city, TUMBLE(time, INTERVAL '10 seconds')")
for row in client.tail(number): print(row)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from headgate import errors

DEFAULT_URL = "http://127.0.0.1:8620"
_STATUS: dict[int, type[errors.HeadgateError]] = {
    400: errors.ConfigError, 403: errors.AccessDenied, 404: errors.NotFound, 410: errors.CursorGone, 422: errors.QueryRefused,
}  # fmt: skip


class Client:
    """Talks to a service. Errors are the service's own, raised here."""

    def __init__(
        self, url: str = DEFAULT_URL, token: str = "", *, timeout: float = 60.0, transport: Any = None
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, transport=transport)
        self.url = url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        try:
            answer = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise errors.HeadgateError(
                f"no answer from {self.url} ({error}): is `headgate serve` running?"
            ) from error
        if answer.is_error:
            raise _raised(answer.status_code, answer.text)
        return answer.json() if answer.content else None

    # -- queries

    def register(self, sql: str, name: str = "") -> int:
        """Register a query; returns its number. QueryRefused says what is wrong and where."""
        return int(self._ask("POST", "/queries", json={"sql": sql, "name": name})["id"])

    def register_many(self, queries: Sequence[str]) -> list[int | errors.HeadgateError]:
        """Register many: a number or an error for each."""
        answer = self._ask("POST", "/queries/bulk", json={"queries": [{"sql": text} for text in queries]})
        return [one["id"] if "id" in one else _error(one) for one in answer["results"]]

    def queries(self) -> list[dict[str, Any]]:
        """All your queries."""
        found = list[dict[str, Any]]()
        while True:
            after = found[-1]["id"] if found else -1
            page = self._ask("GET", "/queries", params={"after": after, "limit": 10_000})["queries"]
            found += page
            if not page:
                return found

    def query(self, number: int) -> dict[str, Any]:
        """One of your queries."""
        found: dict[str, Any] = self._ask("GET", f"/queries/{number}")
        return found

    def explain(self, query: int | str) -> dict[str, Any]:
        """What a query is, or would be: template, constants, server, cost."""
        if isinstance(query, int):
            found: dict[str, Any] = self._ask("GET", f"/queries/{query}/explain")
        else:
            found = self._ask("POST", "/explain", json={"sql": query})
        return found

    def pause(self, number: int) -> None:
        """Let a query rest."""
        self._ask("POST", f"/queries/{number}/pause")

    def resume(self, number: int) -> None:
        """Let it begin anew."""
        self._ask("POST", f"/queries/{number}/resume")

    def remove(self, number: int) -> None:
        """Forget a query."""
        self._ask("DELETE", f"/queries/{number}")

    # -- results

    def results(
        self, number: int, cursor: str | None = None, limit: int = 1000
    ) -> tuple[list[dict[str, Any]], str]:
        """Results from a cursor on, and the next cursor."""
        params = {"limit": limit, **({"cursor": cursor} if cursor else {})}
        answer = self._ask("GET", f"/queries/{number}/results", params=params)
        return answer["results"], answer["cursor"]

    def tail(self, number: int, cursor: str | None = None) -> Iterator[dict[str, Any]]:
        """Results as they come, for ever; a lost connection is taken up again where it broke."""
        while True:
            try:
                for event in self._events(number, cursor):
                    yield from event["results"]
                    cursor = event["cursor"]
            except httpx.TransportError:
                self._ask("GET", "/health")  # raises if the service is gone

    def _events(self, number: int, cursor: str | None) -> Iterator[dict[str, Any]]:
        params = {"cursor": cursor} if cursor else {}
        with self._http.stream("GET", f"/queries/{number}/stream", params=params, timeout=None) as answer:
            if answer.is_error:
                answer.read()
                raise _raised(answer.status_code, answer.text)
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    yield json.loads(line[5:])

    # -- sources and servers

    def add_source(
        self, name: str, columns: Mapping[str, str], *, delay_s: float = 5.0, rate: float = 1.0
    ) -> None:
        """Declare a source that takes pushed events."""
        wish = {"name": name, "columns": dict(columns), "delay_s": delay_s, "rate": rate}
        self._ask("POST", "/sources", json=wish)

    def add_sources(self, sources: Sequence[Mapping[str, Any]]) -> None:
        """Declare many at once."""
        self._ask("POST", "/sources/bulk", json={"sources": [dict(one) for one in sources]})

    def sources(self) -> list[dict[str, Any]]:
        """The sources that queries can read (the first 10,000)."""
        found: list[dict[str, Any]] = self._ask("GET", "/sources", params={"limit": 10_000})["sources"]
        return found

    def push(self, source: str, events: Sequence[Mapping[str, Any]]) -> int:
        """Push events; they are durable when this returns."""
        return int(
            self._ask("POST", f"/sources/{source}/events", json={"events": [dict(e) for e in events]})[
                "accepted"
            ]
        )

    def servers(self) -> list[dict[str, Any]]:
        """Servers with load and sources."""
        found: list[dict[str, Any]] = self._ask("GET", "/servers")["servers"]
        return found

    def add_server(self) -> int:
        """Add a server (admins)."""
        return int(self._ask("POST", "/servers")["server"])

    def lose_server(self, number: int) -> int:
        """Take a server away (admins); returns how many computations moved."""
        return int(self._ask("DELETE", f"/servers/{number}")["moved"])

    def add_tenant(self, name: str, *, admin: bool = False) -> str:
        """Make a tenant (admins); returns its token."""
        return str(self._ask("POST", "/tenants", json={"name": name, "admin": admin})["token"])

    def traffic(self, last: int = 100) -> list[dict[str, Any]]:
        """What the last batches carried."""
        found: list[dict[str, Any]] = self._ask("GET", "/traffic", params={"last": last})["batches"]
        return found

    def status(self) -> dict[str, Any]:
        """The service at a glance."""
        found: dict[str, Any] = self._ask("GET", "/status")
        return found

    def ready(self) -> bool:
        """Whether batches run."""
        try:
            return bool(self._http.get("/ready").json()["ready"])
        except (httpx.HTTPError, ValueError):
            return False


def _raised(status: int, text: str) -> errors.HeadgateError:
    try:
        told = json.loads(text)
    except ValueError:
        told = {"message": text[:300]}
    return _error({"status": status, **told}, status)


def _error(told: Mapping[str, Any], status: int = 422) -> errors.HeadgateError:
    message = str(told.get("message", "the service gave no reason"))
    kind = _STATUS.get(status, errors.HeadgateError)
    if kind is errors.QueryRefused:
        return errors.QueryRefused(
            message, told.get("error", "refused"), told.get("line", 1), told.get("column", 1)
        )
    return kind(message)
