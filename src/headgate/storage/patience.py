"""Requests to an object store: which failures pass, how long a request is sent again, and how many were sent.

Throttling (429, 503), errors of the server (500, 502, 504), time-outs, connections that break and answers
that are cut short pass. Such a request is sent again after a pause that doubles each time, with jitter, until
`PATIENCE` seconds are over. Then the error says how often and how long it was tried.

The file systems of fsspec have retries of their own, which are either short and without jitter (s3fs) or good
(gcsfs, adlfs). Those of s3fs are switched off (`OPTIONS`), so that attempts do not multiply.
"""

from __future__ import annotations

import errno
import http.client
from collections.abc import Callable
from typing import Any, TypeVar

from headgate.storage.outside import OUTSIDE

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds after which a request is not sent again."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 8.0
OPTIONS: dict[str, dict[str, Any]] = {
    "s3": {
        "config_kwargs": {
            "retries": {"total_max_attempts": 1, "mode": "standard"},
            "connect_timeout": 10,
            "read_timeout": 30,
        }
    }
}
"""Options of file systems by protocol: one attempt, which ends."""
_AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))
_CODES = frozenset(("SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "Throttling"))
_CONFLICTS = frozenset(("ConditionalRequestConflict", "OperationAborted"))
"""Of two conditional writes at the same time S3 may reject both."""
_BROKEN = frozenset(
    (
        "HTTPClientError",  # botocore: refused, closed, timed out
        "ResponseStreamingError",
        "IncompleteReadError",
        "ResponseParserError",
        "ClientConnectionError",  # aiohttp, for s3fs and gcsfs
        "ClientPayloadError",
        "FSTimeoutError",
        "ServiceRequestError",  # azure
        "ServiceResponseError",
    )
)
_LIBRARIES = frozenset(("botocore", "aiobotocore", "aiohttp", "azure", "google", "gcsfs", "adlfs", "s3fs"))


class Counter:
    """How many requests this process has sent to object stores, but for those that a task reports."""

    def __init__(self) -> None:
        self.sent = 0
        self.again = 0
        """Of these, requests that were sent because the one before had failed."""

    def since(self, before: int) -> int:
        """The requests since there were so many. They are taken off: a task reports them, and it may run
        in the driver's process.
        """
        sent, self.sent = self.sent - before, before
        return sent


REQUESTS = Counter()


def patiently(call: Callable[[], T], *, unsure: Callable[[], None] = lambda: None) -> T:
    """What `call` returns, which is called again while its failures pass. `unsure` is called after each
    failure that may have changed the store all the same.
    """
    outside = OUTSIDE.get()
    start, pause, tries = outside.clock(), FIRST_PAUSE, 0
    while True:
        tries += 1
        REQUESTS.sent += 1
        try:
            return call()
        except Exception as error:
            took = outside.clock() - start
            if not passes(error):
                if isinstance(error, OSError) or type(error).__module__.partition(".")[0] not in _LIBRARIES:
                    raise
                raise OSError(errno.EIO, f"{type(error).__name__}: {error}") from error
            if took + pause > PATIENCE:
                times = f"tried {tries} times in {took:.0f} s"
                raise OSError(errno.EIO, f"{in_words(error)} ({times})") from error
            unsure()
        outside.pause(pause)
        REQUESTS.again += 1
        pause = min(2 * pause, LONGEST_PAUSE)


def passes(error: BaseException | None) -> bool:
    """Whether a request that failed this way may succeed if it is sent again."""
    while error is not None:
        status, code = answer(error)
        if status is not None or code:
            return status in _AGAIN or code in _CODES or code in _CONFLICTS
        if isinstance(error, ConnectionError | TimeoutError | http.client.HTTPException):
            return True
        if any(kind.__name__ in _BROKEN for kind in type(error).__mro__):
            return True
        error = error.__cause__
    return False


def answer(error: BaseException) -> tuple[int | None, str]:
    """The status and the code of the server's answer, as botocore, azure and gcsfs have them."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        code = str(response.get("Error", {}).get("Code", ""))
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return status if status is not None else (int(code) if code.isdecimal() else None), code
    for name in ("status_code", "code", "status"):
        value = getattr(error, name, None)
        if isinstance(value, int | str) and str(value).isdecimal() and 100 <= int(value) < 600:
            return int(value), ""
    return None, ""


def in_words(error: BaseException) -> str:
    """What failed, with the server's answer if there was one."""
    seen: BaseException | None = error
    while seen is not None:
        status, code = answer(seen)
        if status is not None or code:
            return f"the server answers {status or ''} {code}: {error}"
        seen = seen.__cause__
    return f"{type(error).__name__}: {error}"


def refused(error: BaseException | None) -> bool:
    """Whether the server refused a conditional write because the object exists (412, or 409 of Azure)."""
    while error is not None:
        status, code = answer(error)
        if status == 412 or code in ("PreconditionFailed", "412"):
            return True
        if status == 409 and "BlobAlreadyExists" in f"{getattr(error, 'error_code', '')}":
            return True
        error = error.__cause__
    return False
