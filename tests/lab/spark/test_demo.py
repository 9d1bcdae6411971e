"""The demonstration from end to end, small."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headgate.cli import app
from headgate_lab.demo import run
from headgate_lab.demo.run import first_difference

SMALL = ("--batches", "4", "--rows", "800", "--channels", "2", "--pace", "100", "--shift-every", "2")


def words(out: Path) -> list[str]:
    return ["demo", *SMALL, "--out", str(out), "--json"]


def check(out: Path, printed: str, said: str) -> None:
    told = json.loads(printed)
    assert told["answers_equal"] is True
    assert [lane["policy"] for lane in told["lanes"]] == ["static", "flux-load"]
    assert [lane["batches"] for lane in told["lanes"]] == [4, 4]
    assert told["lanes"][0]["moves"] == 0
    assert told["shifts"] == [2]
    assert "slept and not burnt" in told["paced"]
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert told["picture"] == str(out / "demo.png")
    assert "slept and not burnt" in said
    assert first_difference(out / "fixed", out / "adaptive", 4) is None
    assert not (out / "work").exists()

    again = next((out / "adaptive" / "batch=1").glob("*.parquet"))
    again.unlink()
    assert first_difference(out / "fixed", out / "adaptive", 4) == 1


def test_a_small_demonstration(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def of_all_tests(*args: object) -> Iterator[Any]:
        yield spark

    monkeypatch.setattr(run, "local_spark", of_all_tests)
    done = CliRunner().invoke(app, words(tmp_path / "demo"), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    check(tmp_path / "demo", done.stdout, done.stderr)


@pytest.mark.full
def test_it_starts_a_spark_with_many_slots(java_home: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headgate", *words(tmp_path / "demo")],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check(tmp_path / "demo", done.stdout, done.stderr)
