"""HTTP in a background thread of the same process: for tests, benchmarks and notebooks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.service.access import Access
from headgate.service.edge_limits import EdgeLimits
from headgate.service.http.server import PatientServer, ServerConfig
from headgate.service.service import Service


@contextmanager
def listening(
    service: Service,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    limits: EdgeLimits | None = None,
    access: Access | None = None,
) -> Iterator[str]:
    """Serve while the block runs; gives the URL. Port 0 takes a free port."""
    config = ServerConfig(
        service,
        limits or EdgeLimits(),
        access,
        host=host,
        port=port,
        log_level="error",
        timeout_graceful_shutdown=1,
    )
    server = PatientServer(config)
    thread = threading.Thread(target=server.run, name="headgate-http", daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"{config.access.scheme}://{host}:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
