"""A client of the query service.

client = hg.service.Client("http://127.0.0.1:8620", token)
number = client.register("SELECT city, avg(temp) FROM weather GROUP BY city, TUMBLE(time, INTERVAL '10 seconds')")
for row in client.tail(number):
print(row)
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from headgate import errors
from headgate.service.http.client_tenants import TenantCalls
from headgate.service.http.delivery_calls import DeliveryCalls

DEFAULT_URL = "http://127.0.0.1:8620"
ERROR_OF_STATUS: dict[int, type[errors.HeadgateError]] = {
    400: errors.ConfigError,
    401: errors.BadToken,
    403: errors.AccessDenied,
    404: errors.NotFound,
    409: errors.AlreadyExists,
    410: errors.CursorGone,
    422: errors.QueryRefused,
    429: errors.QuotaExceeded,
}


ELSEWHERE = {"starting", "standby", "draining", "superseded", "Superseded"}
"""Errors of a process that has not acted on a request: another one may."""
ROUND_S = 0.25
"""Between two rounds through all addresses."""


class Client(TenantCalls, DeliveryCalls):
    """A connection to a service. An error of the service is raised here as the class that it was there.

    A service with standbys has several addresses, in a list or separated by commas. A request goes to the next one if
    it was not acted on: nobody listens there, or the process stands by. A request that the service refuses for now (429
    with Retry-After) is sent again when it says. Both go on until `patience_s` are over; then the refusal is raised, and
    0 means not to wait. A request that may have been acted on is not sent again.
    """

    def __init__(
        self, url: str | Sequence[str] = DEFAULT_URL, token: str = "", *, timeout: float = 60.0,
        patience_s: float = 60.0, cacert: str = "", transport: Any = None,
    ) -> None:  # fmt: skip
        """Connect. `cacert` is a file with the certificates to trust, if not those of the machine."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            verify = ssl.create_default_context(cafile=cacert) if cacert else True
        except (OSError, ssl.SSLError) as error:
            raise errors.ConfigError(f"the certificates in {cacert} cannot be used: {error}") from error
        self._http = httpx.Client(headers=headers, timeout=timeout, transport=transport, verify=verify)
        self.urls = [one.strip().rstrip("/") for one in (url.split(",") if isinstance(url, str) else url)]
        self._patience_s = patience_s

    @property
    def url(self) -> str:
        """The address that is asked first: the one that answered last."""
        return self.urls[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(self, method: str, path: str, *, stream: bool = False, **options: Any) -> httpx.Response:
        """Send a request to the first address that acts on it."""
        asked, deadline = 0, time.monotonic() + self._patience_s
        while True:
            asked += 1
            request = self._http.build_request(method, f"{self.url}{path}", **options)
            failure: httpx.TransportError | None = None
            try:
                answer = self._http.send(request, stream=stream)
                if not _is_elsewhere(answer):
                    return answer
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
            if asked >= len(self.urls) and (len(self.urls) == 1 or time.monotonic() >= deadline):
                if failure is not None:
                    raise failure
                return answer
            self.urls.append(self.urls.pop(0))
            if asked % len(self.urls) == 0:
                time.sleep(ROUND_S)

    def _request(self, method: str, path: str, **options: Any) -> Any:
        waited = 0.0
        while True:
            try:
                answer = self._send(method, path, **options)
            except httpx.TransportError as error:
                raise errors.HeadgateError(
                    f"no answer from {' or '.join(sorted(self.urls))} ({error}): is `headgate serve` running?"
                ) from error
            again = _retry_after(answer)
            if again is None or waited + again > self._patience_s:
                break
            waited += again
            time.sleep(again)
        if answer.is_error:
            raise _error_of_response(answer.status_code, answer.text)
        return answer.json() if answer.content else None

    # -- queries

    def register(self, sql: str, name: str = "") -> int:
        """Register a query; returns its number. QueryRefused says what is wrong and where."""
        return int(self._request("POST", "/queries", json={"sql": sql, "name": name})["id"])

    def register_many(self, queries: Sequence[str]) -> list[int | errors.HeadgateError]:
        """Register many queries; for each, in order, a number or an error."""
        answer = self._request("POST", "/queries/bulk", json={"queries": [{"sql": text} for text in queries]})
        return [body["id"] if "id" in body else _error_of_json(body) for body in answer["results"]]

    def queries(self) -> list[dict[str, Any]]:
        """List all your queries."""
        queries = list[dict[str, Any]]()
        while True:
            after = queries[-1]["id"] if queries else -1
            page = self._request("GET", "/queries", params={"after": after, "limit": 10_000})["queries"]
            queries += page
            if not page:
                return queries

    def query(self, number: int) -> dict[str, Any]:
        """Show one of your queries."""
        answer: dict[str, Any] = self._request("GET", f"/queries/{number}")
        return answer

    def explain(self, query: int | str) -> dict[str, Any]:
        """Explain what a query became, or what a text would become: columns, constants, cost, placement."""
        if isinstance(query, int):
            answer: dict[str, Any] = self._request("GET", f"/queries/{query}/explain")
        else:
            answer = self._request("POST", "/explain", json={"sql": query})
        return answer

    def pause(self, number: int) -> None:
        """Pause a query: it costs nothing, and its results so far can no longer be read."""
        self._request("POST", f"/queries/{number}/pause")

    def resume(self, number: int) -> None:
        """Start a paused or failed query afresh from the next batch on."""
        self._request("POST", f"/queries/{number}/resume")

    def remove(self, number: int) -> None:
        """Remove a query; its results can no longer be read."""
        self._request("DELETE", f"/queries/{number}")

    # -- results

    def results(
        self, number: int, cursor: str | None = None, limit: int = 1000
    ) -> tuple[list[dict[str, Any]], str]:
        """Read results from a cursor on; returns them and the next cursor."""
        params = {"limit": limit, **({"cursor": cursor} if cursor else {})}
        answer = self._request("GET", f"/queries/{number}/results", params=params)
        return answer["results"], answer["cursor"]

    def tail(self, number: int, cursor: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield results as they come. A lost connection is resumed where it broke. Raises QueryFailed when the query
        is paused or fails.
        """
        while True:
            try:
                for event in self._events(number, cursor):
                    if "state" in event:
                        why = f": {event['why']}" if event["why"] else ""
                        raise errors.QueryFailed(f"query {number} is {event['state']}{why}")
                    yield from event["results"]
                    cursor = event["cursor"]
            except httpx.TransportError:
                self._request("GET", "/status")  # raises if the service is gone

    def _events(self, number: int, cursor: str | None) -> Iterator[dict[str, Any]]:
        params = {"cursor": cursor} if cursor else {}
        path = f"/queries/{number}/stream"
        with closing(self._send("GET", path, stream=True, params=params, timeout=None)) as answer:
            if answer.is_error:
                answer.read()
                raise _error_of_response(answer.status_code, answer.text)
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    yield json.loads(line[5:])

    # -- sources and servers

    def add_source(
        self, name: str, columns: Mapping[str, str], *, delay_s: float = 5.0, rate: float = 1.0
    ) -> None:
        """Declare a source that takes pushed events."""
        declared = {"name": name, "columns": dict(columns), "delay_s": delay_s, "rate": rate}
        self._request("POST", "/sources", json=declared)

    def add_sources(self, sources: Sequence[Mapping[str, Any]]) -> None:
        """Declare many sources, all or none."""
        self._request("POST", "/sources/bulk", json={"sources": [dict(source) for source in sources]})

    def sources(self) -> list[dict[str, Any]]:
        """List the sources that queries can read (the first 10,000)."""
        listed: list[dict[str, Any]] = self._request("GET", "/sources", params={"limit": 10_000})["sources"]
        return listed

    def grants(self, source: str) -> list[str]:
        """List the tenants that may read your source; `*` is everyone."""
        listed: list[str] = self._request("GET", f"/sources/{quote(source, '')}/grants")["grants"]
        return listed

    def grant(self, source: str, to: str) -> None:
        """Let a tenant, or everyone (`*`), read your source."""
        self._request("PUT", f"/sources/{quote(source, '')}/grants/{quote(to, '')}")

    def revoke(self, source: str, of: str) -> None:
        """Take a grant back. Queries that may no longer read the source stop."""
        self._request("DELETE", f"/sources/{quote(source, '')}/grants/{quote(of, '')}")

    def push(self, source: str, events: Sequence[Mapping[str, Any]]) -> int:
        """Push events; they are durable when this returns. Returns how many there were."""
        body = {"events": [dict(event) for event in events]}
        return int(self._request("POST", f"/sources/{source}/events", json=body)["accepted"])

    def servers(self) -> list[dict[str, Any]]:
        """List the servers with their load, computations and sources."""
        listed: list[dict[str, Any]] = self._request("GET", "/servers")["servers"]
        return listed

    def add_server(self) -> int:
        """Add a server; only an admin may."""
        return int(self._request("POST", "/servers")["server"])

    def lose_server(self, number: int) -> int:
        """Remove a server; only an admin may. Returns how many computations moved."""
        return int(self._request("DELETE", f"/servers/{number}")["moved"])

    def usage(self) -> dict[str, Any]:
        """Show what you use, and your limits; to an admin also what every tenant uses."""
        answer: dict[str, Any] = self._request("GET", "/usage")
        return answer

    def set_limits(self, tenant: str, **limits: float | None) -> dict[str, float]:
        """Set limits of a tenant; only an admin may. None takes one back. Returns those in force."""
        answer: dict[str, float] = self._request("PUT", f"/tenants/{quote(tenant, '')}/limits", json=limits)
        return answer

    def traffic(self, last: int = 100) -> list[dict[str, Any]]:
        """Show what the last batches carried."""
        listed: list[dict[str, Any]] = self._request("GET", "/traffic", params={"last": last})["batches"]
        return listed

    def status(self) -> dict[str, Any]:
        """Show the service at a glance."""
        answer: dict[str, Any] = self._request("GET", "/status")
        return answer

    def ready(self) -> bool:
        """Whether batches run."""
        try:
            return bool(self._http.get(f"{self.url}/ready").json()["ready"])
        except (httpx.HTTPError, ValueError):
            return False


def _retry_after(answer: httpx.Response) -> float | None:
    """After how many seconds to send a request again that was refused for now; None if it was not."""
    seconds = answer.headers.get("Retry-After", "") if answer.status_code == 429 else ""
    return max(0.05, float(seconds)) if seconds.isdecimal() else None


def _is_elsewhere(answer: httpx.Response) -> bool:
    """Whether a process says that it does not act on requests."""
    if answer.status_code != 503:
        return False
    try:
        return json.loads(answer.read()).get("error") in ELSEWHERE
    except (ValueError, AttributeError):
        return False


def _error_of_response(status: int, text: str) -> errors.HeadgateError:
    try:
        body = json.loads(text)
    except ValueError:
        body = {"message": text[:300]}
    return _error_of_json(body, status)


def _error_of_json(body: Mapping[str, Any], status: int = 422) -> errors.HeadgateError:
    message = str(body.get("message", "the service gave no reason"))
    kind = ERROR_OF_STATUS.get(status, errors.HeadgateError)
    if kind is errors.QueryRefused:
        return errors.QueryRefused(
            message, body.get("error", "refused"), body.get("line", 1), body.get("column", 1)
        )
    return kind(message)
