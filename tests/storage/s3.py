"""A real S3 server in a process of its own: moto's, on the loopback address."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

BUCKET = "headgate-tests"


@contextmanager
def server() -> Iterator[str]:
    """The address of a server with an empty bucket; s3fs finds it, here and in processes that are started meanwhile."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    settings = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_ENDPOINT_URL": address,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    try:
        with mock.patch.dict(os.environ, settings):
            _wait(address)
            request = urllib.request.Request(f"{address}/{BUCKET}", method="PUT")
            urllib.request.urlopen(request, timeout=30).close()
            yield address
    finally:
        child.terminate()
        child.wait()
        _forget()


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
