"""The service as one process: Spark, batches and HTTP, started and stopped together."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn

from headgate.errors import AccessDenied, ConfigError
from headgate.service.config import ServiceConfig
from headgate.service.http.server import ServerConfig
from headgate.service.kafka_config import FORMAT, KafkaConfig
from headgate.service.private import private_folder
from headgate.service.service import Service, Settings
from headgate.service.tenants import OPERATOR
from headgate.service.weather import Weather
from headgate.spark.local import check_installed, local_spark

ADMIN, TOKEN = "admin", "token"


class ServiceProcess:
    """A service with a Spark of its own, or somebody's cluster.

    Making it takes the address and does nothing slow, so a port that is in use is reported at once. The `with` block
    starts Spark and the batches and stops them at its end; `serve_http` in it answers requests until the process is
    told to stop.
    """

    def __init__(self, config: ServiceConfig) -> None:
        self.config = config
        for name, section in config.streams.items():
            if section.get("format") == FORMAT:
                KafkaConfig.of(name, section, os.environ)
        self._stack = ExitStack()
        self._stack.callback(os.umask, os.umask(0o077))  # what is made meanwhile, by Spark too, is private
        self.spark_log = config.folder / "spark.log"
        try:
            self._socket = self._stack.enter_context(listen(config.host, config.port))
            self.url = f"http://{config.host}:{self._socket.getsockname()[1]}"
            check_installed()
            self._stack.enter_context(alone_in(config.folder))
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _start(self) -> None:
        config, stack = self.config, self._stack
        spark = stack.enter_context(local_spark(2, self.spark_log, config.spark, master=config.master))
        from headgate.service.batch.kafka_stream import open_kafka_streams
        from headgate.service.batch.runner import Runner
        from headgate.service.batch.streams import open_stream

        settings = Settings(
            config.folder,
            servers=config.servers,
            tasks=config.tasks,
            registry=config.registry,
            state=config.state,
            limits=config.limits,
            functions=config.functions,
        )
        self.service = Service(settings)
        stack.callback(self.service.close)
        self.token_file = config.folder / TOKEN
        self.token_is_new = admin_token(self.service, config.folder)
        of_kafka = {name: s for name, s in config.streams.items() if s.get("format") == FORMAT}
        of_spark = {name: s for name, s in config.streams.items() if name not in of_kafka}
        kafka = open_kafka_streams(spark, self.service, of_kafka, os.environ)
        frames = {name: open_stream(spark, name, stream) for name, stream in of_spark.items()}
        times = {name: str(stream.get("time", "time")) for name, stream in of_spark.items()}
        runner = Runner(self.service, spark, frames, times=times, kafka=kafka)
        stack.callback(runner.stop)
        if config.demo:
            weather = Weather(self.service, OPERATOR)
            stack.callback(weather.stop)
            weather.start()
        runner.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def serve_http(self) -> None:
        """Answer requests until Ctrl-C or SIGTERM, both of which end this with a KeyboardInterrupt."""
        edge = self.config.edge
        config = ServerConfig(self.service, edge, log_level="warning", timeout_graceful_shutdown=2)
        signal.signal(signal.SIGTERM, _interrupt)
        uvicorn.Server(config).run(sockets=[self._socket])  # on its way out it raises the signal again


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def listen(host: str, port: int) -> socket.socket:
    """Take an address to listen on."""
    try:
        if not 0 <= port < 1 << 16:
            raise OSError("a port is 0 to 65535")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
        # Connections inherit it. Without it, every answer on a kept-alive connection waits 40 ms for an acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        message = f"cannot listen on {host}:{port}: {error}; choose another --port, or 0 for a free one"
        raise ConfigError(message) from error


def admin_token(service: Service, folder: Path) -> bool:
    """Make sure that the admin's token is in a file that only its owner can read, and that the service knows it.
    Returns whether it was made now.
    """
    path = folder / TOKEN
    known = path.read_text(encoding="utf-8").strip() if path.exists() else None
    if known is not None:
        with suppress(AccessDenied):
            service.authenticate(known)
            return False
    tenants = len(service.tenants)
    name = f"{ADMIN}_{tenants}" if tenants else ADMIN
    # A registry that was lost, or put in another's place, does not know the token: it learns it again.
    token = service.add_tenant(name, admin=True, token=known)
    if known is None:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
    return known is None


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other services out of a folder while the block runs."""
    private_folder(folder)
    with open(folder / "lock", "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise ConfigError(
                f"another service (process {file.read().strip() or 'unknown'}) runs in {folder}: stop it, or choose another --folder"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
