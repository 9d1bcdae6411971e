"""A real Prometheus for tests: it scrapes a port every second and evaluates headgate's rules."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headgate.observe.rules import rule_file

PROMETHEUS = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(
    PROMETHEUS is None, reason="needs prometheus (Debian's package prometheus)"
)
PATIENCE = 60
CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml]
scrape_configs:
  - job_name: headgate
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


class Prometheus:
    """What a Prometheus that runs says."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str, **words: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(url) as answer:
            return json.loads(answer.read())["data"]

    def value(self, expr: str) -> float | None:
        """The value of an expression with one result; None if it has none."""
        found = self.get("query", query=expr)["result"]
        return float(found[0]["value"][1]) if found else None

    def until(self, ask: Callable[["Prometheus"], Any], wanted: Any) -> None:
        """Wait until it gives the answer that is wanted."""
        last: Any = None
        for _ in range(10 * PATIENCE):
            try:
                last = ask(self)
            except (urllib.error.URLError, ConnectionError) as error:
                last = error
            if last == wanted:
                return
            time.sleep(0.1)
        pytest.fail(f"wanted {wanted!r}, and got {last!r}")


@contextmanager
def prometheus(folder: Path, scraping: int) -> Iterator[Prometheus]:
    """One that scrapes a port, until the end of the block."""
    assert PROMETHEUS is not None
    folder.mkdir()
    (folder / "rules.yml").write_text(rule_file())
    (folder / "prometheus.yml").write_text(CONFIG.format(port=scraping))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [PROMETHEUS, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield Prometheus(port)
        finally:
            process.terminate()
            process.wait(30)
