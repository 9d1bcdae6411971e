"""A real S3 server in a process of its own: moto's, on the loopback address. A proxy before it notes requests, and does harm."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

BUCKET = "headgate-tests"


@contextmanager
def server() -> Iterator[str]:
    """The address of a server with an empty bucket; s3fs finds it, here and in processes that are started meanwhile."""
    with _moto() as port, _found_at(f"http://127.0.0.1:{port}") as address:
        yield address


class Faulty:
    """A server behind a proxy."""

    def __init__(self, address: str, log: Path) -> None:
        self.address, self._log = address, log

    def harm(self, seed: int, rate: float, *kinds: str) -> None:
        """From now on, a part of the requests goes wrong."""
        said = json.dumps({"seed": seed, "rate": rate, "kinds": kinds}).encode()
        request = urllib.request.Request(f"{self.address}/_faults", data=said, method="PUT")
        urllib.request.urlopen(request, timeout=30).close()

    def requests(self) -> list[list[str]]:
        """The method, the path and the fault of each request so far."""
        return [line.split(" ") for line in self._log.read_text().splitlines()]


@contextmanager
def faulty_server() -> Iterator[Faulty]:
    """A server behind a proxy, which does no harm until it is told to."""
    with tempfile.TemporaryDirectory() as folder, _moto() as upstream:
        port, log = _free(), Path(folder, "requests")
        script = str(Path(__file__).with_name("faulty.py"))
        child = subprocess.Popen([sys.executable, script, str(port), str(upstream), str(log)])
        try:
            _wait(f"http://127.0.0.1:{port}")
            with _found_at(f"http://127.0.0.1:{port}") as address:
                yield Faulty(address, log)
        finally:
            child.terminate()
            child.wait()


@contextmanager
def _moto() -> Iterator[int]:
    port = _free()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(f"http://127.0.0.1:{port}")
        yield port
    finally:
        child.terminate()
        child.wait()


@contextmanager
def _found_at(address: str) -> Iterator[str]:
    settings = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_ENDPOINT_URL": address,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    _forget()
    try:
        with mock.patch.dict(os.environ, settings):
            request = urllib.request.Request(f"{address}/{BUCKET}", method="PUT")
            urllib.request.urlopen(request, timeout=30).close()
            yield address
    finally:
        _forget()


def _free() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def _wait(address: str) -> None:
    while True:
        try:
            urllib.request.urlopen(address, timeout=30).close()
            return
        except OSError:
            time.sleep(0.1)  # pytest's time-out ends it, if it never comes


def _forget() -> None:
    """File systems are kept for the process: the next server has another address."""
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
