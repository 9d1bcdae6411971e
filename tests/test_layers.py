"""The layers: imports only point left, and what is left of the drivers stays pure."""

import ast
from pathlib import Path

import pytest

import headgate

ROOT = Path(headgate.__file__).parent
LEAVES = {"errors", "ids", "compiled", "sizes", "astray"}
DECIDING = [{"routing"}, {"reports"}, {"plans"}, {"policies", "flow"}, {"control"}]
WORKING = [{"state"}, {"operators", "agg"}]
ASKING = [{"sql"}]


def _left_of():
    """Package -> packages it may import besides itself."""
    allowed = {leaf: LEAVES - {leaf} for leaf in LEAVES}
    for chain in (DECIDING, WORKING, ASKING):
        left = set(LEAVES)
        for layer in chain:
            allowed |= {name: set(left) for name in layer}
            left |= layer
    allowed["graphs"] = set(LEAVES)
    allowed["agg"] |= {"operators"}  # the public face of the operators
    pure = set(allowed)
    allowed["hosting"] = set(pure)
    allowed["testing"] = pure | {"hosting"}
    allowed |= {driver: pure | {"hosting"} for driver in ("simulator", "spark")}
    drivers = pure | {"hosting", "simulator", "spark"}
    allowed |= {name: set(drivers) for name in ("service", "papers")}
    above = drivers | {"service", "papers"}
    tools = {"bench", "demo"}
    allowed["commands"] = set(above)
    allowed |= {name: above | {"commands"} for name in tools}
    allowed |= {"cli": above | {"commands"} | tools, "__main__": {"cli"}}
    return allowed


ALLOWED = _left_of()
PURE = LEAVES.union(*DECIDING, *WORKING, *ASKING, {"graphs", "hosting", "testing"})
IMPURE = ("pyspark", "py4j", "time", "random", "threading", "multiprocessing", "secrets", "numpy.random")
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
        elif layer in PURE and any(is_under(name, impure) for impure in IMPURE):
            yield f"{layer} is pure and imports {name}"
    if layer in PURE:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == "random" and isinstance(node.value, ast.Name):
                yield f"{layer} is pure and uses {node.value.id}.random in line {node.lineno}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_left(path):
    assert list(faults_of(path, path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("where", "text", "fault"),
    [
        ("routing/table.py", "from headgate.plans.plan import Plan", "not left of it"),
        ("routing/table.py", "from ..plans import plan", "not left of it"),
        ("state/bins.py", "from headgate.routing import table", "not left of it"),
        ("policies/static.py", "from headgate.flow.limit import Limit", "not left of it"),
        ("spark/stage.py", "import headgate.simulator.clock", "not left of it"),
        ("simulator/clock.py", "def f():\n    from headgate import spark", "not left of it"),
        ("control/loop.py", "import time", "is pure"),
        ("control/loop.py", "from numpy import random", "is pure"),
        ("control/loop.py", "import numpy as np\nnp.random.default_rng(1)", "np.random"),
        ("hosting/query.py", "from pyspark.sql import DataFrame", "is pure"),
        ("attic/old.py", "", "no place"),
    ],
)
def test_the_check_itself_finds(where, text, fault):
    assert any(fault in found for found in faults_of(ROOT / where, text))


def test_the_package_itself_loads_spark_only_when_asked():
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    eager = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    named = set(imports_of(ROOT / "__init__.py", eager))
    assert not [name for name in named if is_under(name, "pyspark") or is_under(name, "headgate.spark")]
