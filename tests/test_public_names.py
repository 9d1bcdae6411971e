"""The public face: what `import headgate as hg` offers, locked."""

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import headgate as hg
from headgate import agg

OPERATORS = ["Aggregate", "Dedup", "HashJoin", "HistoryWindow", "Join", "TopK", "Vectorised", "Windows"]
OPERATORS += ["agg", "hopping", "kernel", "session", "tumbling"]
SETTINGS = ["Completed", "Expansion", "FanOut", "Gate", "Limits", "Routing", "SharedMemory"]
MODULES = [
    "doctor",
    "errors",
    "hosting",
    "kernels",
    "observe",
    "policies",
    "service",
    "sinks",
    "sources",
    "testing",
]
WITHOUT_SPARK = [*OPERATORS, *SETTINGS, *MODULES]
WITH_SPARK = ["Pipeline", "Stage", "bounded", "configure", "read", "two_streams"]


def test_the_public_names_are_these() -> None:
    assert sorted(hg.__all__) == sorted([*WITHOUT_SPARK, *WITH_SPARK])
    assert dir(hg) == sorted([*hg.__all__, "__version__"])


@pytest.mark.parametrize("name", WITHOUT_SPARK)
def test_what_needs_no_spark_is_there(name: str) -> None:
    assert inspect.getdoc(getattr(hg, name))


HEAVY = ["numba", "numpy", "pandas", "pyarrow", "pyarrow.compute", "pyspark", "rich", "scipy", "typer"]
LOADED = """
import json, sys
import headgate as hg
before = [name for name in json.loads(sys.argv[1]) if name in sys.modules]
ours = sorted(name for name in sys.modules if name.startswith("headgate"))
print(json.dumps([before, ours, dir(hg)]))
"""


def test_importing_the_package_loads_nothing_until_a_name_is_used() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, json.dumps(HEAVY)], capture_output=True, text=True, check=True
    )
    heavy, ours, listed = json.loads(done.stdout)
    assert (heavy, ours) == ([], ["headgate"])
    assert set(hg.__all__) < set(listed)


def test_a_name_is_loaded_once() -> None:
    first = hg.Aggregate
    assert vars(hg)["Aggregate"] is first


def test_type_checkers_know_the_same_names_in_the_same_places() -> None:
    tree = ast.parse(Path(hg.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {
        name: home.rstrip(":").replace(":", ".").rpartition(".")[::2] for name, home in hg._HOMES.items()
    }
    assert seen == homes
    assert sorted(homes) == sorted(hg.__all__)


def test_aggregate_functions_are_these() -> None:
    names = sorted(
        n
        for n, f in vars(agg).items()
        if inspect.isfunction(f) and f.__module__ == agg.__name__ and n[0] != "_"
    )
    assert names == [
        "avg",
        "count",
        "count_distinct",
        "first",
        "last",
        "max",
        "mean",
        "min",
        "std",
        "sum",
        "var",
    ]


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(
        AttributeError, match="it has Aggregate, Completed, Dedup, Expansion, FanOut, Gate, HashJoin"
    ):
        _ = hg.Stagee


def test_without_pyspark_the_message_says_what_to_install() -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match=r"pip install 'headgate\[spark\]'"):
            _ = hg.Stage
    else:
        assert all(inspect.getdoc(getattr(hg, name)) for name in WITH_SPARK)
