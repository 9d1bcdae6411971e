"""Every example in a docstring runs: those with a prompt in all modules that need no pyspark, and all that are set in.

A block that is set in may be a formula. Code is what compiles and calls something, or what begins as code does, so that an example which
somebody's editor filled like prose is found as well.
"""

import ast
import doctest
import importlib
import re
import textwrap
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import pytest

import headgate
import headgate_lab

ROOTS = [Path(str(package.__file__)).parent for package in (headgate, headgate_lab)]
FILES = {path: root.parent for root in ROOTS for path in sorted(root.rglob("*.py"))}
"""Every module of the library and of the laboratory, and the folder in which its package is."""


def name_of(path):
    parts = path.relative_to(FILES[path]).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_at_once(tree):
    """Names of modules that are imported when a module is, not when one of its functions runs."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


IMPORTS = {name_of(p): set(imported_at_once(ast.parse(p.read_text(encoding="utf-8")))) for p in FILES}


def needs_pyspark(name, seen=()):
    """Whether importing a module imports pyspark, by way of others too."""
    wanted = IMPORTS.get(name, set()) - set(seen)
    return any(
        other.partition(".")[0] in ("pyspark", "py4j") or needs_pyspark(other, {*seen, name, *wanted})
        for other in wanted
    )


MODULES = sorted(name for name in IMPORTS if not needs_pyspark(name) and not name.endswith("__main__"))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of(name) -> None:
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.failed == 0


def test_the_search_finds_modules_and_leaves_out_what_needs_pyspark() -> None:
    assert {
        "headgate",
        "headgate.state.lanes",
        "headgate.storage.store",
        "headgate_lab.papers.claims",
    } <= set(MODULES)
    assert not {"headgate.spark.stage", "headgate_lab.cliques"} & set(MODULES)


BEGINS_AS_CODE = re.compile(r"(import|from) [\w.]+|@\w|\w+ = [\w.]+\(|\w+(\.\w+)+\(")


def set_in(docstring):
    """The blocks of a docstring that are set in, each with the empty lines inside of it."""
    for block in re.findall(r"(?:^|\n\n)((?:    .*(?:\n+(?=    )|\n|$))+)", docstring):
        if not block.lstrip().startswith(">>>"):
            yield textwrap.dedent(block).strip()


def calls(text):
    try:
        return any(isinstance(node, ast.Call) for node in ast.walk(ast.parse(text)))
    except SyntaxError:
        return False


def code_of(name, path):
    """What is meant as code, by the name of the module and its number in it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    owners = [n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)]
    blocks = (block for owner in owners for block in set_in(ast.get_docstring(owner) or ""))
    found = [block for block in blocks if BEGINS_AS_CODE.match(block) or calls(block)]
    return {(name, number): block for number, block in enumerate(found)}


CODE = {key: text for p in FILES for key, text in code_of(name_of(p), p).items()}


def first_example():
    """A stand-in for Spark; `tests/spark/test_readme.py` runs the example as it is."""
    return {"spark": None}


class AnyCall:
    """Every method of it takes anything, and returns it."""

    def __getattr__(self, name):
        return lambda *arguments, **options: self


def one_gate():
    from headgate.flow.sources import Rows

    started: deque[tuple[int, ...]] = deque()
    return {
        "Rows": Rows,
        "rows": range(5000),
        "start": lambda stamp, items: started.append(stamp),
        "wait_for_any": started.popleft,
    }


def two_gates():
    from headgate.flow.gate import Batcher, Gate
    from headgate.flow.sources import Rows

    outer, inner = (Batcher(Gate(in_flight=2, batch=10)) for _ in range(2))
    outer.offer((), Rows(range(15)))
    outer.close(())
    return {"Rows": Rows, "outer": outer, "inner": inner, "expand": lambda items: [*items, *items]}


def some_load():
    from headgate.hosting.workload import Workload

    return {"load": Workload.from_names({"road": 2.0, "rain": 1.0}, {"a": ["road"], "b": ["rain", "road"]})}


TAKEN_FOR_GRANTED = {
    ("headgate", 0): first_example,
    ("headgate.flow.gate", 0): one_gate,
    ("headgate.flow.gate", 1): two_gates,
    ("headgate.hosting", 0): lambda: {"hosting": importlib.import_module("headgate.hosting")},
    ("headgate.hosting.offline.algorithms", 0): some_load,
}


def test_every_example_that_is_set_in_is_known() -> None:
    assert set(CODE) == set(TAKEN_FOR_GRANTED)


@pytest.mark.parametrize(
    "example", sorted(TAKEN_FOR_GRANTED), ids=lambda example: f"{example[0]} {example[1]}"
)
def test_the_example_that_is_set_in_runs(example, monkeypatch) -> None:
    if example == ("headgate", 0):
        monkeypatch.setitem(vars(headgate), "read", lambda spark: AnyCall())
        monkeypatch.setitem(vars(headgate), "sinks", SimpleNamespace(Parquet=str))
    names = {**vars(importlib.import_module(example[0])), **TAKEN_FOR_GRANTED[example]()}
    exec(compile(CODE[example], " ".join(map(str, example)), "exec"), names)


def test_code_that_was_filled_like_prose_is_found_and_formulas_are_left_alone() -> None:
    filled = 'What it is.\n\n    stage = hg.Stage(key="user",\n    sink=1) events.start()\n\nMore.'
    assert [bool(BEGINS_AS_CODE.match(block)) for block in set_in(filled)] == [True]
    formula = "What it is.\n\n    U(c) = busy share of the time\n    y = a x + b\n"
    assert not any(BEGINS_AS_CODE.match(block) or calls(block) for block in set_in(formula))
