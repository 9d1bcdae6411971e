"""Commands that ask a running service: the options that all of them have, and the client that these make."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.console import Output
from headgate.cli.group import AsJson
from headgate.errors import ConfigError

if TYPE_CHECKING:
    from headgate.service.http.client import Client

DEFAULT_URL = "http://127.0.0.1:8620"
TOKEN_FILE = Path("headgate-service") / "token"
"""Where `headgate serve` leaves the token of a service that it started in this folder."""


@dataclass(frozen=True)
class Asked:
    """A service that a command asks, and how it answers."""

    client: Client
    as_json: bool

    def answer(self, shown: Any, data: Any) -> None:
        """Print what is for people, or with `--json` what is for machines."""
        Output(as_json=self.as_json).result(shown, data)


def asking(function: Callable[..., None]) -> Callable[..., None]:
    """A command of a function whose first parameter is an `Asked`: it gets the options of a service."""
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    parameters = [*own, *inspect.signature(_service, eval_str=True).parameters.values()]

    @wraps(function)
    def command(*, url: str, token: str, cacert: Path | None, as_json: bool, **arguments: Any) -> None:
        with _service(url, token, cacert, as_json) as client:
            function(Asked(client, as_json), **arguments)

    keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    command.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in keyword}
    del command.__wrapped__
    return command


def _service(
    url: Annotated[
        str, typer.Option(envvar="HEADGATE_URL", help="The service's address, or several: a,b.")
    ] = DEFAULT_URL,
    token: Annotated[
        str,
        typer.Option(
            envvar="HEADGATE_TOKEN", help="Your token; by default that of the service in this folder."
        ),
    ] = "",
    cacert: Annotated[
        Path | None,
        typer.Option(
            envvar="HEADGATE_CACERT",
            help="Certificates to trust, if the service's is signed by none that is known.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> Any:
    """A client with the given token, or with that of the service in this folder."""
    from headgate.service.http.client import Client

    if not token and TOKEN_FILE.exists():
        token = TOKEN_FILE.read_text(encoding="utf-8").strip()
    if not token:
        raise ConfigError("a token is needed: --token or HEADGATE_TOKEN, as `headgate serve` printed it")
    return Client(url, token, cacert=str(cacert or ""))
