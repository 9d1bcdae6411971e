"""`headgate serve`: the query service in one process, with a Spark of its own or somebody's cluster."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
import tomllib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rich.text import Text

from headgate.cli.console import Talk
from headgate.errors import ConfigError
from headgate.spark.local import check_installed, local_spark
from headgate.sql.limits import Limits

ADMIN = "admin"
WELCOME = """
headgate serves at  {url}
token               {token}

Try, in another terminal in this folder:
  headgate query add "SELECT city, count(*) AS n, avg(temp) AS temp FROM weather GROUP BY city, TUMBLE(time, INTERVAL '10 seconds')"
  headgate query tail 0
and open {url}/ (the page) and {url}/docs (REST). Ctrl-C stops; what is registered stays.
"""


@dataclass(frozen=True)
class Wish:
    """What was asked for on the command line, and in the configuration."""

    folder: Path
    host: str
    port: int
    servers: int
    master: str
    registry: str
    demo: bool
    limits: Limits = field(default_factory=Limits)
    spark: Mapping[str, str] = field(default_factory=dict)
    streams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    functions: Mapping[str, Any] = field(default_factory=dict)


def with_config(wish: Wish, path: Path | None) -> Wish:
    """The same with what a TOML file says; it wins over the command line's defaults."""
    if path is None:
        return wish
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    known = {"service", "limits", "spark", "streams", "functions"}
    if unknown := sorted(set(told) - known):
        raise ConfigError(f"{path}: [{unknown[0]}] is not known; there is {', '.join(sorted(known))}")
    service = _checked(
        path,
        "service",
        told.get("service", {}),
        {"host", "port", "servers", "master", "registry", "demo", "folder"},
    )
    limits = _checked(path, "limits", told.get("limits", {}), {one.name for one in fields(Limits)})
    if "folder" in service:
        service["folder"] = Path(service["folder"])
    return replace(
        wish,
        **service,
        limits=Limits(**limits),
        spark={name: str(value) for name, value in told.get("spark", {}).items()},
        streams=told.get("streams", {}),
        functions=_functions(path, told.get("functions", {})),
    )


def _checked(path: Path, section: str, found: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    if unknown := sorted(set(found) - known):
        raise ConfigError(
            f"{path}: [{section}] has {unknown[0]!r}, which is not known; there is {', '.join(sorted(known))}"
        )
    return dict(found)


def _functions(path: Path, told: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """[functions.NAME] call = "module:attribute", arguments = [...], returns = "..."."""
    from headgate.sql.engine import Function

    found = {}
    for name, one in told.items():
        try:
            module, _, attribute = str(one["call"]).partition(":")
            call = getattr(importlib.import_module(module), attribute)
            found[name] = Function(name, tuple(one["arguments"]), str(one["returns"]), call)
        except (KeyError, ImportError, AttributeError) as error:
            raise ConfigError(
                f"{path}: [functions.{name}] needs call = 'module:function', arguments and returns ({error})"
            ) from error
    return found


def serve(wish: Wish, talk: Talk) -> None:
    """Start everything, say where it is, and serve until stopped."""
    try:
        _serve(wish, talk)
    except KeyboardInterrupt:
        talk.say("stopped", style="dim")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(
            130
        )  # all is closed; threads of Spark's that still run would hold the interpreter's own end up


def _serve(wish: Wish, talk: Talk) -> None:
    import uvicorn

    from headgate.service.demo import Weather
    from headgate.service.http.app import create_app
    from headgate.service.service import Service, Settings

    listening = listen(wish.host, wish.port)
    url = f"http://{wish.host}:{listening.getsockname()[1]}"
    log = wish.folder / "spark.log"
    with ExitStack() as stack:
        stack.callback(listening.close)
        check_installed()
        talk.say(f"starting Spark ({wish.master}); what it says goes to {log}", style="dim")
        spark = stack.enter_context(local_spark(2, log, wish.spark, master=wish.master))
        from headgate.service.batch.job import SparkJob
        from headgate.service.batch.runner import OPERATOR, Runner
        from headgate.service.batch.streams import configured

        settings = Settings(
            wish.folder,
            servers=wish.servers,
            registry=wish.registry,
            limits=wish.limits,
            functions=wish.functions,
        )
        service = Service(settings, SparkJob())
        stack.callback(service.close)
        token = _token(service, wish.folder)
        frames = {name: configured(spark, name, one) for name, one in wish.streams.items()}
        times = {name: str(one.get("time", "time")) for name, one in wish.streams.items()}
        runner = Runner(service, spark, frames, times=times)
        stack.callback(runner.stop)
        if wish.demo:
            weather = Weather(service, OPERATOR)
            stack.callback(weather.stop)
            weather.start()
        runner.start()
        if wish.host not in ("127.0.0.1", "localhost", "::1"):
            talk.say(
                f"listening on {wish.host}: whoever reaches it and has a token can use it", style="yellow"
            )
        # Not wrapped: these lines are there to be copied.
        welcome = Text(WELCOME.format(url=url, token=token), no_wrap=True, overflow="ignore")
        talk.result(welcome, {"url": url, "token": token})
        config = uvicorn.Config(create_app(service), log_level="warning", timeout_graceful_shutdown=2)
        stack.callback(talk.say, "stopping", style="dim")
        signal.signal(signal.SIGTERM, _ended)
        uvicorn.Server(config).run(sockets=[listening])  # ends by raising again the signal that stopped it


def _ended(number: int, frame: Any) -> None:
    """SIGTERM ends as Ctrl-C does: everything is closed in order."""
    raise KeyboardInterrupt


def listen(host: str, port: int) -> socket.socket:
    """Take the address before anything slow starts: that it is in use is known at once."""
    try:
        if not 0 <= port < 1 << 16:
            raise OSError("a port is 0 to 65535")
        made = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        # Connections inherit it; without it every answer on a connection that is kept waits 40 ms for an acknowledgement.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made
    except OSError as error:
        told = f"{host}:{port} cannot be listened on: {error}; give another --port, or 0 for a free one"
        raise ConfigError(told) from error


def _token(service: Any, folder: Path) -> str:
    """The admin's token: made at the first start, and kept where only the owner can read it."""
    path = folder / "token"
    if path.exists():
        return path.read_text(encoding="utf-8").strip()
    name = ADMIN if not len(service.tenants) else f"{ADMIN}_{len(service.tenants)}"
    token: str = service.tenants.add(name, admin=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token + "\n")
    return token
