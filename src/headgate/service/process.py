"""The service as one process: Spark, batches and HTTP, started and stopped together.

A process answers HTTP from its start. It prepares what takes long, waits until it leads (`leadership`), opens the
service, and serves until a signal stops it or another process has taken over. On the first SIGTERM or Ctrl-C it drains:
it takes nothing more, finishes the batch under way and ends its streams. On a second signal it ends at once.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from headgate import logs
from headgate.errors import CheckpointError, ConfigError, HeadgateError, Superseded, TaskFailed
from headgate.hosting import NO_REPAIR, Host
from headgate.service.collecting import settled
from headgate.service.config import ServiceConfig
from headgate.service.delivery.dispatch import Dispatcher
from headgate.service.http.app import create_app
from headgate.service.http.front import DRAINING, SERVING, STANDBY, STARTING, SUPERSEDED, Front
from headgate.service.http.server import PatientServer, ServerConfig
from headgate.service.leadership import Both, FolderLock, Leadership, Lease, alone_in
from headgate.service.places import Places
from headgate.service.private import private_folder
from headgate.service.registry import Registry, open_registry
from headgate.service.service import Service
from headgate.service.settings import Settings
from headgate.service.stream_config import StreamConfig
from headgate.service.tenants import OPERATOR
from headgate.service.weather import Weather
from headgate.spark.local import check_installed

__all__ = ["ServiceProcess", "admin_token", "alone_in", "listen"]
log = logs.logger("headgate.service")
ADMIN, TOKEN = "admin", "token"
TOKEN_VARIABLE = "HEADGATE_ADMIN_TOKEN"
"""The environment variable with the admin's token, for processes that share no folder."""
SHORTEST_TOKEN = 24
TRIES_S, WATCHES_S = 0.1, 1.0
"""How often a standby tries to lead, and how often a leader looks whether it still does."""
LEAVING_S = 2
"""How long requests under way may take when the HTTP server stops."""
DEAD_S = 3.0
"""How long a process without Spark may take to stop: a standby waits for it."""


class Engine(Protocol):
    """What runs the batches of a service."""

    def warm(self, stack: ExitStack) -> None:
        """Do what takes long and needs no service."""

    def start(self, service: Service, stack: ExitStack) -> None:
        """Start batches. They end with the stack, after the batch under way."""

    def alive(self) -> bool:
        """Whether batches can still run."""


class ServiceProcess:
    """A service with a Spark of its own, or somebody's cluster.

    Making it takes the address and does nothing slow, so a port that is in use is reported at once. The `with` block
    answers HTTP and starts Spark. In it, `lead` returns when this process leads and serves, and `wait` when it is to stop.
    """

    def __init__(self, config: ServiceConfig, engine: Engine | None = None) -> None:
        self.config = config
        for name, section in config.streams.items():
            StreamConfig.of(name, section, os.environ)
        self._places = Places.of(config.folder, config.registry, config.state, config.push)
        self._stack = ExitStack()
        self._serving = ExitStack()
        """What ends first: batches, and then streams of results."""
        self._stack.callback(os.umask, os.umask(0o077))  # what is made meanwhile, by Spark too, is private
        self.spark_log = config.folder / ("spark-standby.log" if config.standby else "spark.log")
        self.front = Front()
        self.signal: int | None = None
        """The signal that told this process to stop."""
        self._stop = threading.Event()
        self._lost: Exception | None = None
        try:
            self._socket = self._stack.enter_context(listen(config.host, config.port))
            self.url = f"{config.access.scheme}://{config.host}:{self._socket.getsockname()[1]}"
            if engine is None:
                check_installed()
                from headgate.service.batch.engine import SparkEngine

                engine = SparkEngine(config, self.spark_log)
            self._engine = engine
            private_folder(config.folder)
            self._lock = FolderLock(config.folder)
            self._leadership: Leadership = self._lock
            if not config.standby:
                self._stack.enter_context(alone_in(config.folder))
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        try:
            self._take_signals()
            self._start_http()
            compile_placement()
            self._engine.warm(self._stack)
        except BaseException:
            self._stack.close()
            raise
        return self

    def _take_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._stack.callback(signal.signal, number, signal.signal(number, self._told_to_stop))

    def _told_to_stop(self, number: int, frame: Any) -> None:
        if self.signal is not None:
            os._exit(128 + number)
        self.signal = number
        self._stop.set()
        if self.front.phase in (STARTING, STANDBY):
            raise KeyboardInterrupt

    def _start_http(self) -> None:
        options = {"log_level": "warning", "timeout_graceful_shutdown": LEAVING_S, "lifespan": "off"}
        server = PatientServer(ServerConfig(self.front, self.config.edge, self.config.access, **options))
        thread = threading.Thread(
            target=server.run, args=([self._socket],), name="headgate-http", daemon=True
        )
        thread.start()

        def end() -> None:
            server.should_exit = True
            thread.join(2 * LEAVING_S)

        self._end_http = end
        self._stack.callback(end)

    def lead(self, standing_by: Callable[[], None] = lambda: None) -> None:
        """Wait until this process leads, and serve from then on. `standing_by` is called before it waits.

        A process that is no standby waits only as long as a leader that died may still seem to lead.
        """
        config = self.config
        if self._places.apart:
            lease = Lease(_patiently_opened(self._places.registry), config.lease_s)
            self._leadership = Both(self._lock, lease) if config.standby else lease
        if config.standby:
            self.front.phase = STANDBY
            notify("READY=1\nSTATUS=standby")
            standing_by()
        if config.standby or self._places.apart:
            self._await_leadership()
        self._stack.callback(self._leadership.release)
        self.front.phase = STARTING
        self._open()
        settled()
        notify("READY=1\nSTATUS=serving")

    def _await_leadership(self) -> None:
        patience = None if self.config.standby else time.monotonic() + 2 * self.config.lease_s
        while True:
            try:
                if self._leadership.take():
                    return
            except HeadgateError as error:  # the registry is away: so it is for the leader
                if patience is not None:
                    raise
                log.warning("this standby cannot see who leads: %s", error)
                self._stop.wait(WATCHES_S)
            if patience is not None and time.monotonic() > patience:
                raise ConfigError(
                    f"another service leads at {self._places.state}: stop it, or start this one with --standby"
                )
            self._stop.wait(TRIES_S)

    def _open(self) -> None:
        config, serving = self.config, self._serving
        settings = Settings(
            config.folder,
            servers=config.servers,
            tasks=config.tasks,
            registry=config.registry,
            state=config.state,
            push=config.push,
            limits=config.limits,
            flow=config.flow,
            functions=config.functions,
            audit_entries=config.audit_entries,
            repair=config.repair,
            refine=config.refine,
            allowed=config.allowed,
        )
        self.service = Service(settings)
        self._stack.callback(self.service.close)
        self._stack.callback(serving.close)
        self.token_file = config.folder / TOKEN
        self.token_is_new = admin_token(self.service, config.folder)
        app = create_app(self.service, config.edge, config.access)
        serving.callback(setattr, app.state.tails, "ending", True)
        deliveries = Dispatcher(self.service)
        serving.callback(deliveries.stop)
        self._engine.start(self.service, serving)
        deliveries.start()
        if config.demo:
            weather = Weather(self.service, OPERATOR)
            serving.callback(weather.stop)
            weather.start()
        watch = threading.Thread(target=self._watch, name="headgate-leads", daemon=True)
        watch.start()
        self.front.serve(app)

    def _watch(self) -> None:
        """Find out that another process has taken over, even if nothing is to be written; and that batches cannot run any
        more: then the process ends, so that a standby, or whoever restarts it, goes on.
        """
        while not self._stop.wait(min(WATCHES_S, self.config.lease_s / 4)):
            if not self._engine.alive():
                self._lost = TaskFailed(
                    "Spark's JVM has ended, and no batch can run any more. Nothing acknowledged is lost: start the service again"
                )
                self._stop.set()
                return
            try:
                if not self._leadership.keep():
                    raise Superseded(f"another process leads the service at {self._places.state} now")
                self.service.batch_log.commits.check_mine()
            except Superseded as error:
                self._lost, self.front.phase = error, SUPERSEDED
                self._stop.set()
            except CheckpointError as error:  # the store is away: so it is for everyone
                log.warning("it cannot be seen whether another process leads: %s", error)

    def wait(self) -> None:
        """Return when the process is to stop, after a signal; raise `Superseded` if another process has taken over, and
        `TaskFailed` if batches cannot run any more.
        """
        while not self._stop.wait(1.0):
            pass
        if self._lost is not None:
            raise self._lost
        self.front.phase = DRAINING

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        notify("STOPPING=1")
        seconds = self.config.drain_s if self._engine.alive() else min(DEAD_S, self.config.drain_s)
        late = threading.Timer(seconds, _end_late, (seconds,))
        late.daemon = True
        late.start()
        self._stop.set()
        if self.front.phase == SERVING:
            self.front.phase = DRAINING
        self._serving.close()
        self._end_http()  # after the last results were sent, before what answers need is closed
        self._stack.close()
        late.cancel()


def compile_placement() -> None:
    """Have the placement of queries compiled before the first is registered: with an empty cache that takes long."""
    host = Host({"a": 1.0}, servers=2, repair=NO_REPAIR)
    host.place_many([("q", ["a"], 1.0)])
    host.repair(1)
    host.refine(1, seed=0)
    host.remove("q")


def _end_late(seconds: float) -> None:
    print(
        f"headgate: not stopped after {seconds:g} s, and ended now; nothing acknowledged is lost",
        file=sys.stderr,
    )
    sys.stderr.flush()
    os._exit(1)


def _patiently_opened(where: str) -> Registry:
    """Open a registry that another process may be making at this moment."""
    try:
        return open_registry(where)
    except HeadgateError:
        time.sleep(1.0)
        return open_registry(where)


def notify(state: str) -> None:
    """Tell systemd, if it started this process and asked to be told."""
    where = os.environ.get("NOTIFY_SOCKET", "")
    if where:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.sendto(state.encode(), "\0" + where[1:] if where.startswith("@") else where)


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
    given = os.environ.get(TOKEN_VARIABLE, "").strip() or None
    if given is not None and len(given) < SHORTEST_TOKEN:
        raise ConfigError(f"{TOKEN_VARIABLE} has {len(given)} characters: give it {SHORTEST_TOKEN} or more")
    known = given or (path.read_text(encoding="utf-8").strip() if path.exists() else None)
    if known and service.tenants.tokens.find(known) is not None:
        if given is not None or service.tenants.has_admin():
            return False
        known = None  # it was revoked, or has expired, and nobody else has one: whoever owns the folder is the admin
    tenants = service.tenants
    if given is not None and service.accounts.replace_admin_token(given, label=TOKEN_VARIABLE):
        return False
    names = (f"{ADMIN}_{number}" for number in count(len(tenants)))
    name = next(name for name in names if not tenants.known(name)) if len(tenants) else ADMIN
    # A registry that was lost, or put in another's place, does not know the token: it learns it again.
    token = service.add_tenant(
        name, admin=True, token=known or None, label=TOKEN_VARIABLE if given is not None else "first"
    )
    if not known:
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
    return not known
