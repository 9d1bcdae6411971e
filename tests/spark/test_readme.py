"""The examples of the README, and the one that `import headgate` shows first, run word for word in an empty folder."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate

README = Path(__file__).parents[2] / "README.md"


def code_of_the_readme() -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", README.read_text(), re.S))


def shown_by_the_readme() -> str:
    """The answer that the page shows under its first example."""
    (shown,) = re.findall(r"```\n(\+.*?)```", README.read_text(), re.S)
    return str(shown)


def check(said: str, folder: Path) -> None:
    assert shown_by_the_readme() in said
    assert "ended, batch 0: 3 rows in" in said
    for name in ("totals", "stage"):
        out = sorted(pq.read_table(folder / "out" / name).to_pylist(), key=lambda row: row["user"])
        assert [(row["user"], row["n"], row["total"]) for row in out] == [("ann", 2, 5.0), ("bob", 1, 5.0)]
    assert (folder / "checkpoints/stage/spark/commits/0").exists()


def test_the_examples_of_the_readme_run_and_run_again(
    inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (inside / "first.py").write_text(code_of_the_readme())
    code = compile(code_of_the_readme(), str(inside / "first.py"), "exec")
    exec(code, {"__name__": "first"})
    check(capsys.readouterr().out, inside)
    Path("in/orders/tuesday.csv").write_text("user,amount\nbob,1.0\ncleo,4.0\n")
    exec(code, {"__name__": "first"})
    assert "ended, batch 1: 2 rows in" in capsys.readouterr().out, "it goes on where it was"


@pytest.mark.full
def test_the_examples_of_the_readme_run_as_a_program(java_home: str, tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(code_of_the_readme())
    done = subprocess.run(
        [sys.executable, "first.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    check(done.stdout, tmp_path)


def test_the_example_of_the_package_itself_runs(spark: Any, inside: Path) -> None:
    Path("in/events").mkdir(parents=True)
    pq.write_table(pa.table({"user": [1, 1, 2], "amount": [2.0, 3.0, 5.0]}), "in/events/one.parquet")
    example = re.search(r"(?:^    .*\n|^\n)+", headgate.__doc__ or "", re.M)
    assert example is not None
    names: dict[str, Any] = {"spark": spark}
    exec(textwrap.dedent(example.group()), names)
    with names["query"] as query:
        query.process_all_available()
    out = sorted(pq.read_table("out/users").to_pylist(), key=lambda row: row["user"])
    assert [(row["user"], row["n"]) for row in out] == [(1, 2), (2, 1)]
    assert (inside / "checkpoints/users/log").exists()
