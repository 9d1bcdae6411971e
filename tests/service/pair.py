"""Two processes of one service, of which one leads and the other stands by; a test kills the leader again and again."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
from tests.service import local_process

from headgate.service.http.client import Client

TOKEN = "a-token-for-the-tests-of-pairs"
ROOT = Path(__file__).parents[2]
PATIENCE_S = 240
FORKS = multiprocessing.get_context("forkserver")  # it imports once, and its children start at once
ASK = httpx.Client(verify=False, timeout=10, headers={"connection": "close"})
FORKS.set_forkserver_preload(["tests.service.local_process"])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


class Member:
    """One process: `headgate serve` if it is to have Spark, else the same without."""

    def __init__(self, arguments, log, *, spark=False, **environment) -> None:
        self.log, self.spark = log, spark
        port = free_port() if "--port" not in arguments else arguments[arguments.index("--port") + 1]
        self.url = f"http://127.0.0.1:{port}"
        arguments = [*arguments, "--port", str(port)]
        environment = {"HEADGATE_ADMIN_TOKEN": TOKEN, **environment}
        if spark:
            command = [sys.executable, "-m", "headgate", "serve", "--no-demo", *arguments]
            with log.open("a") as out:
                self.popen = subprocess.Popen(
                    command, stdout=out, stderr=out, env={**os.environ, **environment}, start_new_session=True
                )
            self.pid = self.popen.pid
        else:
            self.forked = FORKS.Process(target=local_process.run, args=(arguments, environment, str(log)))
            self.forked.start()
            assert self.forked.pid is not None
            self.pid = self.forked.pid

    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self.popen.poll() if self.spark else self.forked.exitcode

    def wait(self) -> int | None:
        """Wait for its end; returns the exit code."""
        if self.spark:
            return self.popen.wait(PATIENCE_S)
        self.forked.join(PATIENCE_S)
        return self.forked.exitcode

    def signal(self, number) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        if self.spark:
            os.killpg(self.pid, signal.SIGKILL)  # with its JVM
        else:
            self.signal(signal.SIGKILL)
        self.wait()

    def phase(self) -> str:
        """What it says of itself: serving, standby, ...; empty while nobody listens."""
        try:
            body = ASK.get(f"{self.url}/ready").json()
        except (httpx.HTTPError, ValueError):
            return ""
        return "serving" if body["ready"] else str(body["why"])

    def await_phase(self, *wanted) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.phase() not in wanted:
            assert self.code() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < deadline, (self.phase(), self.log.read_text()[-3000:])
            time.sleep(0.01)

    def end(self) -> None:
        if self.code() is None:
            self.kill()


class Pair:
    """A leader and a standby, in that order."""

    def __init__(self, folder, places=None, *, spark=False, **environment) -> None:
        """`places` gives the arguments of a member's places by its number; by default they share a folder."""
        self.folder, self.spark, self.environment = folder, spark, environment
        self._places = places or (lambda number: ["--folder", str(folder / "service")])
        self._ports = [free_port(), free_port()]
        self.urls = [f"http://127.0.0.1:{port}" for port in self._ports]
        self.members: list[Member] = []

    def start(self) -> Member:
        """Start the one that is missing, as a standby."""
        taken = {member.url for member in self.members}
        number = next(n for n, url in enumerate(self.urls) if url not in taken)
        arguments = [*self._places(number), "--standby", "--port", str(self._ports[number])]
        log = self.folder / f"log-{number}"
        self.members.append(Member(arguments, log, spark=self.spark, **self.environment))
        return self.members[-1]

    def kill_leader(self) -> Member:
        """Kill the leader; returns the one that takes over."""
        self.members.pop(0).kill()
        return self.members[0]

    def client(self, **options) -> Client:
        return Client(self.urls, TOKEN, patience_s=PATIENCE_S, **options)

    def end(self) -> None:
        for member in self.members:
            member.end()
