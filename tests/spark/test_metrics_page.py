"""The examples of the page about metrics run, word for word but for the port."""

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.observe.test_samples import read
from tests.spark.test_connector_pages import DOCS, run

from headgate.observe.export import port as ports


def test_the_examples_of_the_page_about_metrics_run(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("opentelemetry.sdk")
    ours = logging.getLogger("headgate")
    before = list(ours.handlers)
    try:
        text = (DOCS / "operate/metrics.md").read_text().replace("metrics_port=9108", "metrics_port=0")
        assert run(text, tmp_path, monkeypatch) == 6
    finally:
        ours.handlers[:] = before
        ours.setLevel(logging.NOTSET)
        for server in set(ports._servers.values()):
            server.shutdown()
            server.server_close()
        ports._servers.clear()
    assert read((tmp_path / "users.prom").read_text())["headgate_rows_total", "query=users", "stage=0"] == 3
    said = capsys.readouterr()
    assert "users: batch 0, 3 rows in" in said.out
    assert '"query": "users", "batch": 0' in said.err
