"""What is not installed is named, with what to install, in one line. Each case runs in a process in which modules are hidden."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headgate.errors import EXTRAS, LAB, ConfigError, not_installed, required

HIDE = """
import json, sys

hidden = set(json.loads(sys.argv[1]))


class Hiding:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Hiding)
"""
RUN = f"""{HIDE}
from typer.testing import CliRunner

from headgate.cli import app

told = {{}}
for words in json.loads(sys.argv[2]):
    got = CliRunner().invoke(app, words, env={{"COLUMNS": "60"}})
    kept = isinstance(got.exception, SystemExit | None)
    told[" ".join(words)] = [got.exit_code, got.stdout, got.stderr, "" if kept else repr(got.exception)]
print(json.dumps(told))
"""
LAB_COMMANDS = [
    ["demo"],
    ["bench"],
    ["bench", "placement", "--quick"],
    ["reproduce", "--list"],
    ["reproduce", "mice", "--quick"],
    ["cliques", "edges.txt"],
    ["rmat", "edges.txt"],
]
ON_SPARK = (
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
        *(["bench", name, "--quick"] for name in ON_SPARK),
    ],
    "reference": [["place", "queries.csv", "--algorithm", "hypergraph"]],
    "mpc": [["simulate", "slow", "--policy", "mpc"], ["demo", "--policy", "mpc"]],
    "plot": [["simulate", "slow", "--seconds", "1", "--plot", "curve.png"]],
}


def run(text, folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", text, *map(json.dumps, arguments)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check_refusals(told, remedy):
    for words, (code, out, error, raised) in told.items():
        assert (words, code, raised) == (words, 1, "")
        assert "Traceback" not in out + error
        line = error.strip().splitlines()[-1]
        assert line.startswith("headgate: "), words
        assert line.endswith(f"which is not installed: {remedy}"), words


@pytest.mark.parametrize("extra", NEEDS)
def test_every_command_says_which_extra_it_lacks(extra, tmp_path) -> None:
    (tmp_path / "queries.csv").write_text("query,sources\nq1,road\nq2,rain\n")
    (tmp_path / "edges.txt").write_text("1 2\n2 3\n3 1\n")
    hidden = [module for module, brings in EXTRAS.items() if brings == extra]
    told = run(RUN, tmp_path, hidden, NEEDS[extra])
    assert len(told) == len(NEEDS[extra])
    check_refusals(told, f"pip install 'headgate[{extra}]'")


@pytest.mark.parametrize("hidden", [["piqp"], ["scipy"]])
def test_the_mpc_policy_is_refused_when_it_is_made(hidden, tmp_path) -> None:
    text = f"""{HIDE}
import headgate as hg

told = []
for make in (lambda: hg.policies.get("mpc"), hg.policies.Mpc, hg.policies.Mpc.paper):
    try:
        make()
    except hg.errors.ConfigError as error:
        told.append(str(error))
hg.policies.get("lqr"), hg.policies.get("rebuild")
print(json.dumps(told))
"""
    words = f"model predictive control needs {hidden[0]}, which is not installed: pip install 'headgate[mpc]'"
    assert run(text, tmp_path, hidden) == [words] * 3


@pytest.mark.parametrize(
    ("module", "extra", "calls"),
    [
        ("deltalake", "delta", ["hg.sinks.Delta('t')", "hg.sources.Delta('t')"]),
        ("pyiceberg", "iceberg", ["hg.sinks.Iceberg('s.t')", "hg.sources.Iceberg('s.t')"]),
        ("psycopg", "postgres", ["hg.sinks.Table('postgresql://here/x', 't')"]),
        ("opentelemetry", "otel", ["hg.observe.OpenTelemetry()"]),
        ("fastavro", "avro", ["hg.sources.Kafka('x:1', 't', '{}', value='avro')"]),
        ("google", "protobuf", ["hg.sources.Kafka('x:1', 't', value='protobuf', message=('m.desc', 'M'))"]),
    ],
)
def test_a_source_or_a_sink_says_what_it_lacks_when_it_is_made(module, extra, calls, tmp_path) -> None:
    text = f"""{HIDE}
import headgate as hg

told = []
for call in json.loads(sys.argv[2]):
    try:
        eval(call)
    except hg.errors.ConfigError as error:
        told.append(str(error))
print(json.dumps(told))
"""
    told = run(text, tmp_path, [module], calls)
    assert len(told) == len(calls)
    assert all(
        one.endswith(f"needs {module}, which is not installed: pip install 'headgate[{extra}]'")
        for one in told
    )


def test_without_any_extra_the_rest_of_the_commands_run(tmp_path) -> None:
    (tmp_path / "queries.csv").write_text("query,sources\nq1,road\nq2,rain\n")
    commands = [["simulate"], ["simulate", "slow", "--seconds", "1"], ["place", "queries.csv"], ["version"]]
    told = run(RUN, tmp_path, [*EXTRAS, *LAB], commands)
    assert [(code, raised) for code, _, _, raised in told.values()] == [(0, "")] * len(commands)


@pytest.mark.parametrize("module", LAB)
def test_a_missing_laboratory_is_named(module) -> None:
    told = not_installed(ModuleNotFoundError(name=module), "headgate bench")
    assert (
        str(told)
        == f"headgate bench needs {module}, which is not installed: pip install headgate-lab (from a checkout: its folder lab)"
    )


def test_the_commands_of_the_laboratory_say_what_to_install(tmp_path) -> None:
    told = run(RUN, tmp_path, ["headgate_lab"], LAB_COMMANDS)
    assert len(told) == len(LAB_COMMANDS)
    check_refusals(told, "pip install headgate-lab (from a checkout: its folder lab)")


def test_a_required_module_is_imported_or_refused() -> None:
    assert required("json", "x") is json
    with pytest.raises(ModuleNotFoundError, match="colours"):
        required("colours", "x")


def test_a_module_missing_inside_the_laboratory_is_not_explained_away() -> None:
    assert not_installed(ModuleNotFoundError(name="headgate_lab.bench.gone"), "x") is None


def test_a_module_of_no_extra_is_not_explained_away() -> None:
    assert not_installed(ModuleNotFoundError("No module named 'colours'", name="colours"), "x") is None
    assert not_installed(ImportError("cannot import name 'a' from 'b'"), "x") is None
    assert isinstance(not_installed(ModuleNotFoundError(name="pyspark.sql"), "x"), ConfigError)


def test_the_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    by_spark = {"connect"}  # Spark itself says what a Connect session lacks
    # imported under another name than that of the distribution
    imported = {"protobuf": "google", "opentelemetry-sdk": "opentelemetry", "pyjwt[crypto]": "jwt"}
    wanted = {imported.get(one.split(">")[0]) or "".join(c if c.isalnum() else "_" for c in one.split(">")[0].split("[")[0]): extra
              for extra, needs in project["optional-dependencies"].items() if extra not in by_spark for one in needs}  # fmt: skip
    assert {**wanted, "py4j": "spark"} == EXTRAS
