"""Commands whose extra is not installed say what to install, in one line. Each runs in a process in which the modules are hidden."""

import json
import subprocess
import sys

import pytest

from headgate.errors import EXTRAS, ConfigError, not_installed

RUN = """
import json, sys

hidden = set(json.loads(sys.argv[1]))


class Hiding:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Hiding)

from typer.testing import CliRunner

from headgate.cli import app

told = {}
for words in json.loads(sys.argv[2]):
    got = CliRunner().invoke(app, words, env={"COLUMNS": "60"})
    kept = isinstance(got.exception, SystemExit | None)
    told[" ".join(words)] = [got.exit_code, got.stdout, got.stderr, "" if kept else repr(got.exception)]
print(json.dumps(told))
"""
NEEDS = {
    "service": [
        ["query", "list", "--token", "t"],
        ["query", "add", "SELECT 1", "--token", "t"],
        ["query", "tail", "0", "--token", "t"],
        ["serve"],
        ["bench", "service", "--quick"],
    ],
    "spark": [
        ["demo"],
        ["serve", "--port", "0"],
        ["cliques", "edges.txt"],
        ["place", "queries.csv", "--spark"],
        *(
            ["bench", name, "--quick"]
            for name in (
                "aggregate",
                "history",
                "kernel",
                "skew",
                "rebalance",
                "service",
                "faucet",
                "operators",
                "nexmark",
            )
        ),
    ],
    "reference": [["place", "queries.csv", "--algorithm", "hypergraph"]],
}


@pytest.mark.parametrize("extra", NEEDS)
def test_every_command_says_which_extra_it_lacks(extra, tmp_path) -> None:
    (tmp_path / "queries.csv").write_text("query,sources\nq1,road\nq2,rain\n")
    (tmp_path / "edges.txt").write_text("1 2\n2 3\n3 1\n")
    hidden = [module for module, brings in EXTRAS.items() if brings == extra]
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(hidden), json.dumps(NEEDS[extra])],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert len(told) == len(NEEDS[extra])
    for words, (code, out, error, raised) in told.items():
        assert (words, code, raised) == (words, 1, "")
        assert "Traceback" not in out + error
        line = error.strip().splitlines()[-1]
        assert line.startswith("headgate: "), words
        assert line.endswith(f"pip install 'headgate[{extra}]'"), words


def test_a_module_of_no_extra_is_not_explained_away() -> None:
    assert not_installed(ModuleNotFoundError("No module named 'colours'", name="colours"), "x") is None
    assert not_installed(ImportError("cannot import name 'a' from 'b'"), "x") is None
    assert isinstance(not_installed(ModuleNotFoundError(name="pyspark.sql"), "x"), ConfigError)


def test_the_extras_are_those_of_the_package() -> None:
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    wanted = {"".join(c if c.isalnum() else "_" for c in one.split(">")[0].split("[")[0]): extra
              for extra, needs in project["optional-dependencies"].items() for one in needs}  # fmt: skip
    assert {**wanted, "py4j": "spark"} == EXTRAS
