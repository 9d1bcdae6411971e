"""A service without Spark, and the same behind a real port of loopback."""

import threading

import pytest
import uvicorn
from tests.service.local import Local

from headgate.service.app import create_app


@pytest.fixture
def local(tmp_path):
    made = Local(tmp_path / "service")
    yield made
    made.service.close()


@pytest.fixture
def served(local):
    config = uvicorn.Config(
        create_app(local.service), host="127.0.0.1", port=0, log_level="error", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        threading.Event().wait(0.01)
    local.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    yield local
    server.should_exit = True
    thread.join()
