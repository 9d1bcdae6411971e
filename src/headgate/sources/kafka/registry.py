"""Schemas of a schema registry, over HTTP: Confluent's, or another that speaks its protocol.

Three requests are all that a reader needs, so the standard library sends them. A schema never changes
under its id: a process asks for it once. A registry that does not answer is asked again for as long as
the user allows, and then the query fails: its records are not bad.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from headgate.errors import ConfigError, SourceFailed

USER_INFO, TOKEN = "basic.auth.user.info", "bearer.auth.token"
FROM_ENVIRONMENT = {USER_INFO: "HEADGATE_REGISTRY_USER_INFO", TOKEN: "HEADGATE_REGISTRY_TOKEN"}
"""Options, and the variables of the environment that stand for them."""
_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password")
_ATTEMPTS = 8
_UNKNOWN_ID, _NO_SUBJECT, _NO_VERSION = 40403, 40401, 40402
_MOST_SCHEMAS = 1000
_COMPILED = "?format=serialized"
"""What makes a registry hand out Protobuf schemas as descriptors."""
_schemas: dict[tuple[str, int, bool], Written] = {}


@dataclass(frozen=True)
class Written:
    """A schema of the registry, and the texts of those that it refers to, by name and before their use."""

    kind: str
    text: str
    imports: tuple[tuple[str, str], ...] = ()

    @property
    def references(self) -> tuple[str, ...]:
        """The texts that it refers to."""
        return tuple(text for _, text in self.imports)


@dataclass(frozen=True)
class Registry:
    """How a registry is reached. It is pickled and sent to the tasks."""

    url: str
    options: Mapping[str, Any] = field(repr=False, default_factory=dict)
    """The user's; they may hold a password, so they are never shown."""
    patience: float = 60.0
    """Seconds without an answer until an error is raised."""

    @classmethod
    def of(cls, url: Any, options: Any, patience: float) -> Registry:
        """The registry that a user describes. A password within the address becomes an option."""
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            shown = "..." if parts is None or "@" in url else repr(url)
            raise ConfigError(f"Kafka(registry={shown}): write an address such as 'http://localhost:8081'")
        known = (USER_INFO, TOKEN, *_FILES)
        given = dict(options) if isinstance(options, Mapping) else {} if options is None else {"": ""}
        if unknown := [name for name in given if name not in known]:
            raise ConfigError(
                f"Kafka(registry_options=...) has {unknown[0]!r}: it is a dict with some of {', '.join(known)}"
            )
        if parts.username is not None:
            user, password = (
                unquote(parts.username),
                unquote(parts.password or ""),
            )
            given.setdefault(USER_INFO, f"{user}:{password}")
        if USER_INFO not in given and TOKEN not in given:
            given |= {name: os.environ[at] for name, at in FROM_ENVIRONMENT.items() if at in os.environ}
        place = parts.netloc.rpartition("@")[2]
        return cls(urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", "")), given, patience)

    def schema(self, number: int, kind: str, *, compiled: bool = False) -> Written:
        """The schema with an id; raise `ValueError` with the reason if there is none of this kind."""
        found = _schemas.get((self.url, number, compiled))
        if found is None:
            answer = self._asked(f"/schemas/ids/{number}{_COMPILED if compiled else ''}", _UNKNOWN_ID)
            if answer is None:
                raise ValueError(f"has schema {number}, which {self.url} does not have")
            while len(_schemas) >= _MOST_SCHEMAS:
                _schemas.pop(next(iter(_schemas)))
            found = _schemas[self.url, number, compiled] = self._written(answer, compiled)
        if found.kind != kind:
            raise ValueError(f"has schema {number}, which is not one of {kind} but of {found.kind}")
        return found

    def newest(
        self, subject: str, kind: str, version: int | None = None, *, compiled: bool = False
    ) -> Written:
        """The newest schema of a subject, or one of its versions."""
        answer = self._version(subject, "latest" if version is None else version, compiled)
        if answer is None:
            raise ConfigError(
                f"{self.url} has no subject {subject!r}{'' if version is None else f' with version {version}'}: write subject=..., or "
                "give schema=..."
            )
        try:
            found = self._written(answer, compiled)
        except ValueError as error:
            raise ConfigError(f"{self.url}: subject {subject!r} {error}") from error
        if found.kind != kind:
            raise ConfigError(
                f"{self.url}: subject {subject!r} has schemas of {found.kind}, and not of {kind}"
            )
        return found

    def _version(self, subject: str, version: int | str, compiled: bool) -> dict[str, Any] | None:
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}{_COMPILED if compiled else ''}"
        return self._asked(path, _NO_SUBJECT, _NO_VERSION)

    def _written(self, answer: Mapping[str, Any], compiled: bool) -> Written:
        imports: dict[str, str] = {}
        self._collect(answer, imports, compiled)
        return Written(str(answer.get("schemaType", "AVRO")), str(answer["schema"]), tuple(imports.items()))

    def _collect(self, answer: Mapping[str, Any], imports: dict[str, str], compiled: bool) -> None:
        """The schemas to which one refers, those that they refer to first."""
        for one in answer.get("references") or ():
            if one["name"] in imports:
                continue
            found = self._version(one["subject"], one["version"], compiled)
            if found is None:
                raise ValueError(f"has a schema that refers to {one['name']}, which {self.url} does not have")
            self._collect(found, imports, compiled)
            imports[one["name"]] = str(found["schema"])

    # -- HTTP

    def _asked(self, path: str, *missing: int) -> dict[str, Any] | None:
        """The answer to a request; None if its code is one of `missing`. What may pass is waited for about
        as long as the user allows: half of it for answers, and half between them.
        """
        each, said = self.patience / (2 * _ATTEMPTS), ""
        request, opener = self._request(path), urllib.request.build_opener(_Straight, *self._https())
        for _ in range(_ATTEMPTS):
            try:
                with opener.open(request, timeout=each) as answer:
                    found = json.load(answer)
                if not isinstance(found, dict) or "schema" not in found:
                    raise ValueError
                return found
            except urllib.error.HTTPError as error:
                with error:
                    body = error.read()
                if _code(body) in missing:
                    return None
                self._refuse(error.code, body, path)
                said = f"status {error.code}"
            except (OSError, HTTPException) as error:
                said = str(getattr(error, "reason", error)) or type(error).__name__
            except ValueError:
                raise ConfigError(
                    f"{self.url}{path} did not answer with a schema: is this a schema registry?"
                ) from None
            threading.Event().wait(each)
        raise SourceFailed(
            f"the schema registry {self.url} did not answer within {self.patience:g} s ({said}). Nothing of the batch was committed: "
            "see that it runs and can be reached, and start the query again; it goes on after its last commit"
        )

    def _refuse(self, status: int, body: bytes, path: str) -> None:
        if status in (401, 403):
            raise ConfigError(
                f"the schema registry {self.url} refuses this user (status {status}): correct {USER_INFO!r} in registry_options=..., or "
                f"the variable {FROM_ENVIRONMENT[USER_INFO]}"
            )
        if status < 500 and status not in (408, 429):
            raise ConfigError(
                f"the schema registry {self.url} answered {path} with status {status} {body[:100]!r}: correct registry=..., "
                "subject=... or schema=..."
            )

    def _request(self, path: str) -> urllib.request.Request:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if USER_INFO in self.options:
            secret = base64.b64encode(str(self.options[USER_INFO]).encode()).decode()
            headers["Authorization"] = f"Basic {secret}"
        elif TOKEN in self.options:
            headers["Authorization"] = f"Bearer {self.options[TOKEN]}"
        return urllib.request.Request(f"{self.url}{path}", headers=headers)

    def _https(self) -> list[urllib.request.HTTPSHandler]:
        if not self.url.startswith("https:"):
            return []
        authority, certificate, key, password = (self.options.get(name) for name in _FILES)
        try:
            context = ssl.create_default_context(cafile=authority)
            if certificate:
                context.load_cert_chain(certificate, key, password)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"Kafka(registry_options=...): a certificate cannot be read: {error}"
            ) from error
        return [urllib.request.HTTPSHandler(context=context)]


class _Straight(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the password is for this address alone."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _code(body: bytes) -> int:
    try:
        return int(json.loads(body)["error_code"])
    except (ValueError, TypeError, KeyError):
        return 0
