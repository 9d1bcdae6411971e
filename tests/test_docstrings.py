"""Every example in a docstring runs, in all modules that need no pyspark."""

import ast
import doctest
import importlib
from pathlib import Path

import pytest

import headgate

ROOT = Path(headgate.__file__).parent


def name_of(path):
    parts = ["headgate", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_at_once(tree):
    """Names of modules that are imported when a module is, not when one of its functions runs."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


IMPORTS = {
    name_of(p): set(imported_at_once(ast.parse(p.read_text(encoding="utf-8")))) for p in ROOT.rglob("*.py")
}


def needs_pyspark(name, seen=()):
    """Whether importing a module imports pyspark, by way of others too."""
    wanted = IMPORTS.get(name, set()) - set(seen)
    return any(
        other.partition(".")[0] in ("pyspark", "py4j") or needs_pyspark(other, {*seen, name, *wanted})
        for other in wanted
    )


MODULES = sorted(name for name in IMPORTS if not needs_pyspark(name) and not name.endswith("__main__"))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of(name):
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.failed == 0


def test_the_search_finds_modules_and_leaves_out_what_needs_pyspark():
    assert {"headgate", "headgate.state.lanes", "headgate.spark.store"} <= set(MODULES)
    assert "headgate.spark.stage" not in MODULES
