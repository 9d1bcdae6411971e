"""Commands that pages show in blocks of shell run, or are listed with the reason why not."""

import re
from pathlib import Path

import pytest
from tests import shell
from typer.testing import CliRunner

from headgate.cli import app

HERE = sorted(
    {
        shell.smaller(command)
        for name, command in shell.shown()
        if name not in shell.SERVED and not shell.reason(command) and "[" not in command
    }
)
"""Every command once. A line with brackets is a summary of options."""


def test_every_command_is_one_of_ours_or_has_a_reason_not_to_run() -> None:
    strange = [
        one for one in shell.shown() if not one[1].startswith("headgate ") and not shell.reason(one[1])
    ]
    assert strange == []
    assert len(shell.shown()) > 60


def test_every_reason_is_needed() -> None:
    every = [command for _, command in shell.shown()]
    for pattern in [*shell.NOT_RUN, *shell.SMALLER]:
        assert any(re.search(pattern, command) for command in every), pattern


@pytest.mark.parametrize("command", HERE)
def test_a_command_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put_files(tmp_path)
    done = CliRunner().invoke(app, shell.words(command))
    assert done.exit_code == 0, done.output
    assert done.stdout.strip()


def put_files(here: Path) -> None:
    """What the commands read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (here / "queries.csv").write_text("query,sources\nq1,road;rain\nq2,rain\nq3,news\n")
    (here / "rates.csv").write_text("source,rate\nroad,2.0\nrain,1.0\nnews,0.5\n")
    rows = {"query": ["q1", "q2", "q3"], "sources": [["road", "rain"], ["rain"], ["news"]]}
    pq.write_table(pa.table(rows), here / "queries.parquet")
