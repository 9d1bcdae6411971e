"""The layers: imports only point left, and what is left of the drivers stays pure."""

import ast
import sys
from pathlib import Path

import pytest

import headgate

ROOT = Path(headgate.__file__).parent
LEAVES = {"errors", "ids", "code_cache", "compiled", "sizes", "far_ahead", "kafka_client", "logs"}
LAYERS = [
    {"routing", "state"},
    {"operators", "kernels", "control"},
    {"flow", "policies"},
    {"storage"},
    {"stage", "sources"},
    {"streams"},
    {"hosting", "sql", "observe"},
    {"watch"},
    {"simulator", "spark", "testing"},
    {"service", "doctor"},
    {"cli"},
    {"__main__"},
]
"""From left to right; what stands in one layer may not import its neighbours there, but for these."""
BESIDE = {"kernels": {"operators"}}


def _left_of():
    """Package -> packages it may import besides itself."""
    allowed = {leaf: LEAVES - {leaf} for leaf in LEAVES}
    left = set(LEAVES)
    for layer in LAYERS:
        allowed |= {name: left | BESIDE.get(name, set()) for name in layer}
        left |= layer
    return allowed


ALLOWED = _left_of()
PURE = LEAVES.union(*LAYERS[:7])
IMPURE = ("pyspark", "py4j", "time", "random", "threading", "multiprocessing", "secrets", "numpy.random")
FILES = ("os", "tempfile", "shutil", "pathlib", "mmap", "fcntl", "fsspec")
"""What reads and writes files; left of the engines only `storage` does, and those that keep compiled code."""
MAY = {"sources": {"threading"}}
"""Rows from Python may be added by another thread while a query plans."""
HAS_FILES = {"storage", "code_cache", "compiled", "sources"}
EDGES = {("observe", "export"), ("storage", "outside.py")}
"""Parts of pure packages where clocks, threads and files are."""
MODULES = sorted(ROOT.rglob("*.py"))


def layer_of(path):
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def imports_of(path, tree):
    """Every module that a file names in an import, absolute, with the names taken from it."""
    package = ["headgate", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def is_under(name, module):
    return name == module or name.startswith(f"{module}.")


def faults_of(path, text):
    """What a file imports that its layer may not, in words."""
    tree = ast.parse(text)
    layer = layer_of(path)
    pure = layer in PURE and path.relative_to(ROOT).parts[:2] not in EDGES
    if layer == "__init__":
        return
    if layer not in ALLOWED:
        yield f"{layer} has no place in the layers: give it one here and in the architecture page"
        return
    for name in sorted(set(imports_of(path, tree))):
        parts = name.split(".")
        if parts[0] == "headgate" and len(parts) > 1 and parts[1] in ALLOWED:
            if parts[1] != layer and parts[1] not in ALLOWED[layer]:
                yield f"{layer} imports {name}, which is not left of it"
        elif pure and any(is_under(name, impure) for impure in IMPURE if impure not in MAY.get(layer, ())):
            yield f"{layer} is pure and imports {name}"
        elif pure and layer not in HAS_FILES and any(is_under(name, module) for module in FILES):
            yield f"{layer} has no files and imports {name}"
        elif (
            parts[0] in ("pyspark", "py4j")
            and path.relative_to(ROOT).parts[:2] != ("service", "batch")
            and layer != "spark"
        ):
            yield f"{layer} has no Spark and imports {name}"
        elif parts[0] == "headgate_lab" and layer != "cli":
            yield f"{layer} is of the library and imports {name}"
    if pure:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == "random" and isinstance(node.value, ast.Name):
                yield f"{layer} is pure and uses {node.value.id}.random in line {node.lineno}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_left(path) -> None:
    assert list(faults_of(path, path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("where", "text", "fault"),
    [
        ("routing/table.py", "from headgate.control.plan import Plan", "not left of it"),
        ("routing/table.py", "from ..control import plan", "not left of it"),
        ("state/bins.py", "from headgate.operators import table", "not left of it"),
        ("policies/static.py", "from headgate.flow.limit import Limit", "not left of it"),
        ("spark/stage.py", "import headgate.simulator.clock", "not left of it"),
        ("simulator/clock.py", "def f():\n    from headgate import spark", "not left of it"),
        ("control/loop.py", "import time", "is pure"),
        ("control/loop.py", "from numpy import random", "is pure"),
        ("control/loop.py", "import numpy as np\nnp.random.default_rng(1)", "np.random"),
        ("hosting/query.py", "from pyspark.sql import DataFrame", "is pure"),
        ("control/loop.py", "import tempfile", "no files"),
        ("cli/serve.py", "from pyspark.sql import SparkSession", "no Spark"),
        ("service/service.py", "def f():\n    import pyspark", "no Spark"),
        ("spark/stage.py", "import headgate_lab", "of the library"),
        ("observe/samples.py", "import time", "is pure"),
        ("observe/board.py", "import os", "no files"),
        ("attic/old.py", "", "no place"),
    ],
)
def test_the_check_itself_finds(where, text, fault) -> None:
    assert any(fault in found for found in faults_of(ROOT / where, text))


def test_the_package_itself_imports_nothing_of_ours_or_of_others() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    eager = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    named = {name.partition(".")[0] for name in imports_of(ROOT / "__init__.py", eager)}
    assert named <= sys.stdlib_module_names


def test_the_laboratory_is_imported_inside_of_commands_only() -> None:
    """A command that needs the laboratory says so when it is called; the others run without it."""
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        eager = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
        assert not [name for name in imports_of(path, eager) if is_under(name, "headgate_lab")], path
