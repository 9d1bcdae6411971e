"""The page about the doctor: its code and its commands run, and what it shows has the parts of a report."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headgate.cli import app

PARTS = (
    "where the time of a batch goes",
    "fixed: planning, logs, scheduling",
    "state store: update, remove, commit",
    "busiest task / mean: time",
    "predicted with headgate (a direct stream)",
    "adaptive (default)",
    "to port it",
    ".write(hg.sinks.Parquet(",
    "constants of headgate's costs:",
)
"""What every report has."""
PAGE = (Path(__file__).parents[2] / "docs" / "port" / "doctor.md").read_text()


@pytest.mark.classic
def test_the_example_of_the_page(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names: dict[str, Any] = {"__name__": "page", "spark": spark}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", PAGE, re.S)):
        exec(compile(block, f"block {number} of docs/port/doctor.md", "exec"), names)
    said = []
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.S):
        for line in block.splitlines():
            if line.startswith("$ headgate "):
                done = CliRunner().invoke(app, shlex.split(line)[2:])
                assert done.exit_code == 0, done.output
                said.append(done.stdout)
    shown = re.search(r"```text\n(.*?)```", PAGE, re.S)
    assert shown is not None
    for part in PARTS:
        assert part in shown[1], part
        assert part in said[0], part
    assert "most frequent keys in a sample" in said[1]
    assert json.loads(said[2])["queries"][0]["name"] == "firsts"
