"""TLS: a certificate whose files may change while the service runs."""

from __future__ import annotations

import os
import ssl

from headgate import logs
from headgate.errors import ConfigError

log = logs.logger("headgate.service.tls")


class Certificate:
    """A certificate and its key. New connections get what the files have now; a pair that does not fit together is
    not used, and the one before stays.
    """

    def __init__(self, certificate: str, key: str) -> None:
        self._files = (certificate, key)
        self._seen = self._stamp()
        try:
            self._newest = self._load()
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"the certificate {certificate} with the key {key} cannot be used: {error}"
            ) from error

    def context(self) -> ssl.SSLContext:
        """What a server listens with."""
        context = self._load()
        context.sni_callback = self._choose
        return context

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Called for each connection, before the certificate is sent."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._newest = self._load()
                log.info("the certificate was read again")
            except (OSError, ssl.SSLError) as error:
                log.warning("the new certificate cannot be used, and the one before stays: %s", error)
        connection.context = self._newest

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*self._files)
        return context

    def _stamp(self) -> tuple[tuple[int, int, int] | None, ...]:
        stamps = list[tuple[int, int, int] | None]()
        for path in self._files:
            try:
                found = os.stat(path)
                stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
            except OSError:
                stamps.append(None)
        return tuple(stamps)
