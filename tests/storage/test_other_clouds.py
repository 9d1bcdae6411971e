"""Checkpoints on Google Cloud Storage and Azure Blob Storage: on fake-gcs-server and Azurite, emulators of their protocols.

They need gcsfs and adlfs, and the emulators `fake-gcs-server` (a module of Go) and `azurite-blob` (a package of npm)
on the path; where one is missing, its tests are skipped.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator

import fsspec
import pytest
from tests.storage.checkpoints import line_of, opened, run_batch
from tests.storage.test_store import RACE

from headgate.errors import Superseded
from headgate.storage.journal_files import journal_lines
from headgate.storage.store import Store

pytestmark = pytest.mark.full
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key of Azurite's account, which everybody knows."""
CLOUDS = {
    "gs": (
        "gcsfs",
        "fake-gcs-server",
        ["-scheme", "http", "-backend", "memory", "-host", "127.0.0.1", "-port"],
    ),
    "abfs": (
        "adlfs",
        "azurite-blob",
        ["--silent", "--skipApiVersionCheck", "--inMemoryPersistence", "--blobPort"],
    ),
}


@pytest.fixture(scope="module", params=CLOUDS)
def cloud(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A bucket of an emulator."""
    protocol: str = request.param
    package, program, options = CLOUDS[protocol]
    pytest.importorskip(package)
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not on the path")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address, folder = f"http://127.0.0.1:{port}", tmp_path_factory.mktemp(protocol)
    child = subprocess.Popen(
        [program, *options, str(port)], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    account = f"AccountName=devstoreaccount1;AccountKey={KEY};BlobEndpoint={address}/devstoreaccount1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", address)
        patch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"DefaultEndpointsProtocol=http;{account}")
        _wait(port)
        if protocol == "gs":
            patch.setattr(sys.modules["gcsfs"].GCSFileSystem, "_emulator_location", address, raising=False)
        fsspec.filesystem(protocol, use_listings_cache=False).mkdir("headgate-tests")
        yield f"{protocol}://headgate-tests"
        child.terminate()
        child.wait()


def _wait(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=30).close()
            return
        except OSError:
            time.sleep(0.1)  # pytest's time-out ends it, if it never comes


@pytest.fixture
def at(cloud: str) -> Callable[[str], Store]:
    root = f"{cloud}/{uuid.uuid4().hex}"
    return lambda name: Store(f"{root}/{name}")


def test_a_file_is_created_once(at) -> None:
    store = at("once")
    store.check()
    store.create("file.json", b"first")
    with pytest.raises(FileExistsError):
        store.create("file.json", b"second")
    store.create("file.json", b"first")  # as after an answer that was lost
    assert store.read("file.json") == b"first"
    assert store.read("file.json", -2) == b"st"
    assert (store.exists("file.json"), store.exists("none.json")) == (True, False)
    store.write("large.hgs", [os.urandom(70 << 20)])
    assert store.names("") == ["file.json", "large.hgs"]
    store.remove("file.json", "large.hgs", "none.json")
    assert store.names("") == []


def test_of_processes_that_create_at_once_one_wins(at) -> None:
    store = at("race")
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, store.url, str(n)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        for n in range(3)
    ]
    won = {str(n): racer.communicate()[0].split() for n, racer in enumerate(racers)}
    assert sorted(name for names in won.values() for name in names) == sorted(map(str, range(20)))
    assert all(store.read(f"race-{name}").decode() == who for who, names in won.items() for name in names)


def test_drivers_follow_one_another(at) -> None:
    store = at("drivers")
    old = opened(store)
    for batch in range(12):
        run_batch(old, batch)
    new = opened(store)
    assert new.last is not None
    assert new.last.batch == 11
    with pytest.raises(Superseded):
        run_batch(old, 12)
    run_batch(new, 12)
    assert journal_lines(store) == [line_of(batch) for batch in range(13)]
