"""One request to a webhook: signed, to a checked address, within a bound of time, and nothing of the answer but its status.

No redirect is followed, no proxy of the environment is used, and no connection is used twice.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import io
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.errors import ConfigError, SinkFailed
from headgate.service.delivery.addresses import Place, Resolve, check_url, checked_address, resolve
from headgate.service.targets_config import Webhooks

SIGNATURE, EVENT = "Headgate-Signature", "Headgate-Id"
"""Headers: who sends, and which parcel it is."""
TOLERANCE_S = 300
"""How old a signature may be when it is verified."""
CHUNK = 1 << 16


def sign(secrets: Sequence[str], body: bytes, at: int) -> str:
    """The value of the header: the time, and by each secret HMAC-SHA256 over the time, a point and the body.

    >>> sign(["whsec_x"], b"{}", 1700000000)[:26]
    't=1700000000,v1=be8cb8325f'
    """
    return ",".join([f"t={at}", *(f"v1={_digest(secret, body, at)}" for secret in secrets)])


def _digest(secret: str, body: bytes, at: int) -> str:
    return hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()


def verify(secret: str, body: bytes, signature: str, *, now: float | None = None) -> None:
    """What a receiver does: raise a `ConfigError` if the body is not what the service has signed, or long ago. While a
    secret is rotated there are two signatures, and one of them has to fit.
    """
    parts = [part.partition("=")[::2] for part in signature.split(",")]
    at = next((value for name, value in parts if name == "t"), "")
    if not at.isdecimal() or len(at) > 15:
        raise ConfigError(f"the header {SIGNATURE} has no time: it is not of this service")
    expected = _digest(secret, body, int(at)).encode()
    if not any(name == "v1" and hmac.compare_digest(expected, value.encode()) for name, value in parts):
        raise ConfigError(
            f"the header {SIGNATURE} does not fit the body: refuse the request, or correct the secret"
        )
    if abs((time.time() if now is None else now) - int(at)) > TOLERANCE_S:
        raise ConfigError(f"the header {SIGNATURE} is older than {TOLERANCE_S} s: refuse the request")


class Gone(SinkFailed):
    """The receiver says that it will never want this again (status 410)."""


class Post:
    """Sends requests within a policy."""

    def __init__(
        self, policy: Webhooks, *, find: Resolve = resolve, clock: Callable[[], float] = time.monotonic,
        context: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self._policy, self._find, self._clock = policy, find, clock
        self._context = context or ssl.create_default_context()

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a body; return if the receiver took it (status 200 to 299), else raise."""
        place = check_url(url, self._policy)
        deadline = self._clock() + self._policy.seconds
        address = checked_address(place.host, place.port, self._policy, self._find)
        try:
            status = self._status(place, address, deadline, body, headers)
        except ssl.SSLCertVerificationError as error:
            raise SinkFailed(
                f"the certificate of {place.host} is not valid: {error.verify_message}"
            ) from error
        except TimeoutError as error:
            raise SinkFailed(f"{place.host} did not answer within {self._policy.seconds:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise SinkFailed(f"the request to {place.host} failed ({type(error).__name__})") from error
        if status == http.HTTPStatus.GONE:
            raise Gone(f"{place.host} answered 410: it does not want results any more")
        if 300 <= status < 400:
            raise SinkFailed(
                f"{place.host} answered {status}, a redirect, which is not followed: give the URL that it leads to"
            )
        if not 200 <= status < 300:
            raise SinkFailed(f"{place.host} answered {status}")

    def _status(
        self, place: Place, address: str, deadline: float, body: bytes, headers: Mapping[str, str]
    ) -> int:
        with socket.create_connection((address, place.port), self._left(deadline)) as plain:
            plain.settimeout(self._left(deadline))
            opened = (
                self._context.wrap_socket(plain, server_hostname=place.host)
                if place.scheme == "https"
                else plain
            )
            with opened:
                connection = http.client.HTTPConnection(place.host, place.port)
                connection.sock = _Bounded(opened, lambda: self._left(deadline))
                try:
                    connection.putrequest("POST", place.path, skip_host=True, skip_accept_encoding=True)
                    for name, value in {"Host": place.authority, "Connection": "close", **headers}.items():
                        connection.putheader(name, value)
                    connection.putheader("Content-Length", str(len(body)))
                    connection.endheaders(body)
                    answer = connection.getresponse()
                    return int(answer.status)
                finally:
                    connection.close()

    def _left(self, deadline: float) -> float:
        left = deadline - self._clock()
        if left <= 0:
            raise TimeoutError
        return left


class _Bounded:
    """A socket whose every step may take what is left of the time: a peer that sends a byte now and then gains none."""

    def __init__(self, opened: socket.socket, left: Callable[[], float]) -> None:
        self._socket, self._left = opened, left

    def sendall(self, data: Any) -> None:
        view = memoryview(data)
        while view:
            self._socket.settimeout(self._left())
            view = view[self._socket.send(view[:CHUNK]) :]

    def makefile(self, mode: str, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._socket, self._left))

    def close(self) -> None:
        self._socket.close()


class _Reader(io.RawIOBase):
    def __init__(self, opened: socket.socket, left: Callable[[], float]) -> None:
        self._socket, self._left = opened, left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._socket.settimeout(self._left())
        return self._socket.recv_into(buffer)
