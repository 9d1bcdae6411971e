"""`headgate serve`: the query service in one process, with a local Spark or on a cluster."""

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

from headgate.cli.console import Output
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
and open {url}/ (the page) and {url}/docs (REST). Ctrl-C stops; registered queries stay.
"""


@dataclass(frozen=True)
class ServeOptions:
    """The options of the command line and of the configuration file."""

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


def with_config(options: ServeOptions, path: Path | None) -> ServeOptions:
    """The options with those of a TOML file, which take precedence."""
    if path is None:
        return options
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    known = {"service", "limits", "spark", "streams", "functions"}
    if unknown := sorted(set(config) - known):
        raise ConfigError(f"{path}: unknown section [{unknown[0]}]; known are {', '.join(sorted(known))}")
    service = _checked(
        path,
        "service",
        config.get("service", {}),
        {"host", "port", "servers", "master", "registry", "demo", "folder"},
    )
    limits = _checked(path, "limits", config.get("limits", {}), {limit.name for limit in fields(Limits)})
    if "folder" in service:
        service["folder"] = Path(service["folder"])
    return replace(
        options,
        **service,
        limits=Limits(**limits),
        spark={name: str(value) for name, value in config.get("spark", {}).items()},
        streams=config.get("streams", {}),
        functions=_functions(path, config.get("functions", {})),
    )


def _checked(path: Path, section: str, values: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    if unknown := sorted(set(values) - known):
        raise ConfigError(
            f"{path}: [{section}] has the unknown {unknown[0]!r}; known are {', '.join(sorted(known))}"
        )
    return dict(values)


def _functions(path: Path, config: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Read [functions.NAME] with call = "module:attribute", arguments = [...] and returns = "..."."""
    from headgate.sql.engine import Function

    functions = {}
    for name, entry in config.items():
        try:
            module, _, attribute = str(entry["call"]).partition(":")
            call = getattr(importlib.import_module(module), attribute)
            functions[name] = Function(name, tuple(entry["arguments"]), str(entry["returns"]), call)
        except (KeyError, ImportError, AttributeError) as error:
            raise ConfigError(
                f"{path}: [functions.{name}] needs call = 'module:function', arguments and returns ({error})"
            ) from error
    return functions


def serve(options: ServeOptions, output: Output) -> None:
    """Start everything, print where it is, and serve until stopped."""
    try:
        _serve(options, output)
    except KeyboardInterrupt:
        output.say("stopped", style="dim")
        sys.stdout.flush()
        sys.stderr.flush()
        # Everything is closed. Threads of Spark that still run would delay the interpreter's own
        # exit.
        os._exit(130)


def _serve(options: ServeOptions, output: Output) -> None:
    import uvicorn

    from headgate.service.demo import Weather
    from headgate.service.http.app import create_app
    from headgate.service.service import Service, Settings

    listening = listen(options.host, options.port)
    url = f"http://{options.host}:{listening.getsockname()[1]}"
    log = options.folder / "spark.log"
    with ExitStack() as stack:
        stack.callback(listening.close)
        check_installed()
        output.say(f"starting Spark ({options.master}); its log is {log}", style="dim")
        spark = stack.enter_context(local_spark(2, log, options.spark, master=options.master))
        from headgate.service.batch.job import SparkJob
        from headgate.service.batch.runner import OPERATOR, Runner
        from headgate.service.batch.streams import configured

        settings = Settings(
            options.folder,
            servers=options.servers,
            registry=options.registry,
            limits=options.limits,
            functions=options.functions,
        )
        service = Service(settings, SparkJob())
        stack.callback(service.close)
        token = _token(service, options.folder)
        frames = {name: configured(spark, name, stream) for name, stream in options.streams.items()}
        times = {name: str(stream.get("time", "time")) for name, stream in options.streams.items()}
        runner = Runner(service, spark, frames, times=times)
        stack.callback(runner.stop)
        if options.demo:
            weather = Weather(service, OPERATOR)
            stack.callback(weather.stop)
            weather.start()
        runner.start()
        if options.host not in ("127.0.0.1", "localhost", "::1"):
            output.say(
                f"listening on {options.host}: everyone who can reach it and has a token can use it",
                style="yellow",
            )
        # Not wrapped, because these lines are meant to be copied.
        welcome = Text(WELCOME.format(url=url, token=token), no_wrap=True, overflow="ignore")
        output.result(welcome, {"url": url, "token": token})
        config = uvicorn.Config(create_app(service), log_level="warning", timeout_graceful_shutdown=2)
        stack.callback(output.say, "stopping", style="dim")
        signal.signal(signal.SIGTERM, _ended)
        uvicorn.Server(config).run(
            sockets=[listening]
        )  # at its end it raises the signal again that stopped it


def _ended(number: int, frame: Any) -> None:
    """Handle SIGTERM like Ctrl-C: everything is closed in order."""
    raise KeyboardInterrupt


def listen(host: str, port: int) -> socket.socket:
    """Bind the address before anything slow starts, so that an address in use is reported at once."""
    try:
        if not 0 <= port < 1 << 16:
            raise OSError("a port is 0 to 65535")
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
        # Connections inherit this. Without it every answer on a kept-alive connection waits 40 ms
        # for an acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        message = f"cannot listen on {host}:{port}: {error}; give another --port, or 0 for a free one"
        raise ConfigError(message) from error


def _token(service: Any, folder: Path) -> str:
    """The admin's token, made at the first start and stored where only the owner can read it."""
    path = folder / "token"
    if path.exists():
        return path.read_text(encoding="utf-8").strip()
    name = ADMIN if not len(service.tenants) else f"{ADMIN}_{len(service.tenants)}"
    token: str = service.tenants.add(name, admin=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token + "\n")
    return token
