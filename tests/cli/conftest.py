"""Fixtures for tests of the command line: a call of it, and the journal of a short run."""

import pytest
from typer.testing import CliRunner

from headgate.cli import app
from headgate.control import journal
from headgate.control.loop import Loop
from headgate.control.report import BatchReport, BinReport, ChannelReport
from headgate.policies import FluxLoad, Guard


@pytest.fixture
def call(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    runner = CliRunner()
    return lambda *words: runner.invoke(app, list(words))


@pytest.fixture
def checkpoint(tmp_path):
    """A stage's folder with a journal of four batches, of which the first led to a move."""
    loop = Loop(FluxLoad(), Guard(), "act", FluxLoad().initial(8, 2))
    folder = tmp_path / "stage"
    (folder / "journal").mkdir(parents=True)
    lines = []
    for batch in range(4):
        table = loop.table
        rows = [60 if b % 2 == 0 else 1 for b in range(8)]
        per_channel = [sum(rows[b] for b in table.bins_of(c)) for c in range(2)]
        report = BatchReport(
            batch=batch,
            table_version=table.version,
            rows=sum(rows),
            wall_ms=100.0,
            channels=tuple(ChannelReport(c, n, busy_ms=float(n)) for c, n in enumerate(per_channel)),
            bins=tuple(BinReport(b, n, float(n), 1000) for b, n in enumerate(rows)),
        )
        lines.append(journal.encode(report, loop.step(report)))
    (folder / "journal" / "000000.jsonl").write_text("\n".join(lines) + "\n")
    return folder
