"""The page about the doctor: its code and its commands run, and the report that it shows is that of its own job.

`HEADGATE_WRITE_PAGES=1` writes the report of now into the page.
"""

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headgate.cli import app

PARTS = (
    "query firsts: ",
    "Deduplicate",
    "where the time of a batch goes",
    "fixed: planning, logs, scheduling",
    "state store: update, remove, commit",
    "busiest task / mean: time",
    "predicted with headgate (a direct stream)",
    "adaptive (default)",
    "constants of headgate's costs:",
)
"""What every report of this job has. Whether Headgate would help depends on the machine."""
FILE = Path(__file__).parents[2] / "docs" / "port" / "doctor.md"
PAGE = FILE.read_text()


@pytest.mark.classic
def test_the_example_of_the_page(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names: dict[str, Any] = {"__name__": "page", "spark": spark}  # that of the reader's job
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", PAGE, re.S)):
        exec(compile(block, f"block {number} of docs/port/doctor.md", "exec"), names)
    said = []
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.S):
        for line in block.splitlines():
            if line.startswith("$ headgate "):
                done = CliRunner().invoke(app, shlex.split(line)[2:])
                assert done.exit_code == 0, done.output
                said.append(done.stdout)
    if os.environ.get("HEADGATE_WRITE_PAGES"):
        here = r"\n?".join(map(re.escape, str(tmp_path)))  # the report may be folded within it
        report = re.sub(here, "/data", said[0]).strip("\n")
        lines = "\n".join(line.rstrip() for line in report.splitlines())
        FILE.write_text(
            re.sub(r"```text\n.*?```", lambda _: f"```text\n{lines}\n```", PAGE, count=1, flags=re.S)
        )
    shown = re.search(r"```text\n(.*?)```", FILE.read_text(), re.S)
    assert shown is not None
    for part in PARTS:
        assert part in shown[1], part
        assert part in said[0], part
    assert "most frequent keys in a sample" in said[1]
    assert json.loads(said[2])["queries"][0]["name"] == "firsts"
