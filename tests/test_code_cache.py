"""Compiled code on disk: found again as long as nothing that it was made from has changed, and never after that."""

import importlib
import itertools
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import code_cache

NUMBERS = itertools.count()


def digest(function) -> bytes:
    told: list[bytes] = []
    code_cache.made_from(function, told.append)
    return b"\n".join(told)


def functions(calls, constants):
    """Functions f0, f1, ... with the calls and the constants given, each as if in a file of its own."""
    files = [{"__name__": f"file{n}"} for n in range(len(calls))]
    for n, (file, constant) in enumerate(zip(files, constants, strict=True)):
        terms = "".join(f" + f{m}(x)" for m in calls[n])
        exec(f"def f{n}(x):\n    return C * x{terms}\n", file)
        file["C"] = constant
    for n, file in enumerate(files):
        file |= {f"f{m}": files[m][f"f{m}"] for m in calls[n]}
    return [file[f"f{n}"] for n, file in enumerate(files)]


@st.composite
def programs(draw):
    size = draw(st.integers(1, 6))
    others = st.sets(st.integers(0, size - 1), max_size=3).map(sorted)
    constants = draw(st.lists(st.integers(0, 3) | st.floats(0, 1), min_size=size, max_size=size))
    return draw(st.lists(others, min_size=size, max_size=size)), constants


@given(programs(), st.data())
def test_a_change_counts_exactly_where_it_can_be_reached(program, data) -> None:
    calls, constants = program
    before = [digest(f) for f in functions(calls, constants)]
    assert before == [digest(f) for f in functions(calls, constants)]
    changed = data.draw(st.integers(0, len(calls) - 1))
    after = [
        digest(f) for f in functions(calls, [c + 1 if n == changed else c for n, c in enumerate(constants)])
    ]
    for n in range(len(calls)):
        reached, new = set(), {n}
        while new:
            reached |= new
            new = {m for r in reached for m in calls[r]} - reached
        assert (before[n] != after[n]) == (changed in reached)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (1, np.int64(1)),
        (0.0, -0.0),
        (1, "1"),
        ("1", b"1"),
        ((1, 2), (12,)),
        ((1, (2, 3)), ((1, 2), 3)),
        (np.arange(3), np.arange(3.0)),
        (np.arange(4), np.arange(4).reshape(2, 2)),
        (np.dtype("i4"), np.dtype("i8")),
        (np.sqrt, np.cbrt),
    ],
    ids=repr,
)
def test_constants_that_differ_in_value_or_type_differ(one, other) -> None:
    (f,), (g,) = (functions([[]], [constant]) for constant in (one, other))
    assert digest(f) != digest(g)


LEAF = "from headgate.compiled import {how}\nSTEP = {step}\n{comment}\n@{how}\ndef add(x):\n    return x + {term}\n"
FIELDS = "from typing import Any, NamedTuple\nclass Pair(NamedTuple):\n    {0}: Any\n    {1}: Any\n"
CALLER = """
from headgate.compiled import compiled
from {package} import leaf
from {package}.leaf import STEP, add

@compiled
def named(x):
    return add(x) * 2

@compiled
def through_the_module(x):
    return leaf.add(x) * 2

@compiled
def with_a_constant(x):
    return x * STEP

@compiled
def of_a_pair(pair):
    return pair.a - pair.b
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A package of three files that can be written anew, and imported anew as the next process would."""
    monkeypatch.setattr(code_cache, "_HOME", str(tmp_path / "cache"))
    package = f"world{next(NUMBERS)}"
    made = SimpleNamespace(root=tmp_path / "first", package=package)

    def load(*, step=10, how="bare", term="1", comment="", fields="ab"):
        folder = made.root / package
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
        (folder / "leaf.py").write_text(LEAF.format(step=step, how=how, term=term, comment=comment))
        (folder / "fields.py").write_text(FIELDS.format(*fields))
        (folder / "caller.py").write_text(CALLER.format(package=package))
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            del sys.modules[name]
        monkeypatch.setattr(sys, "path", [str(made.root), *sys.path])
        monkeypatch.setattr(
            sys, "dont_write_bytecode", True
        )  # files of one second look alike to Python's own cache
        importlib.invalidate_caches()
        made.pair = importlib.import_module(f"{package}.fields").Pair
        return importlib.import_module(f"{package}.caller")

    made.load = load
    return made


def found(function) -> bool:
    return bool(sum(function.stats.cache_hits.values()))


def called(function, argument):
    return function(argument), found(function)


@pytest.mark.parametrize(
    ("name", "change", "before", "after"),
    [
        ("named", {"term": "5"}, 8, 16),
        ("through_the_module", {"term": "5"}, 8, 16),
        ("named", {"term": "STEP"}, 8, 26),
        ("with_a_constant", {"step": 7}, 30, 21),
        ("named", {"how": "inlined"}, 8, 8),
    ],
    ids=["a callee", "a callee of a module", "a constant of a callee", "a constant", "options of a callee"],
)
def test_an_edit_in_another_file_is_compiled_anew(world, name, change, before, after) -> None:
    assert called(getattr(world.load(), name), 3) == (before, False)
    assert called(getattr(world.load(), name), 3) == (before, True)
    assert called(getattr(world.load(**change), name), 3) == (after, False)
    assert called(getattr(world.load(), name), 3) == (before, True)  # the old code is still there


def test_an_edit_that_changes_nothing_is_not(world) -> None:
    assert called(world.load().named, 3) == (8, False)
    assert called(world.load(comment="# why\n\n", step=11).named, 3) == (8, True)


def test_fields_that_change_places_are_compiled_anew(world) -> None:
    caller = world.load()
    assert called(caller.of_a_pair, world.pair(a=5, b=3)) == (2, False)
    caller = world.load(fields="ba")
    assert called(caller.of_a_pair, world.pair(a=5, b=3)) == (2, False)


def test_another_checkout_finds_the_code(world, tmp_path) -> None:
    assert called(world.load().named, 3) == (8, False)
    world.root = tmp_path / "second"
    assert called(world.load().named, 3) == (8, True)


def test_other_argument_types_have_code_of_their_own(world) -> None:
    assert called(world.load().named, 3) == (8, False)
    assert called(world.load().named, 3.5) == (9.0, False)
    assert called(world.load().named, 3.5) == (9.0, True)


@pytest.mark.parametrize("content", [b"", b"\x80\x04", b"nonsense"])
def test_a_file_that_was_cut_off_is_made_anew(world, tmp_path, content) -> None:
    assert called(world.load().named, 3) == (8, False)
    for file in (tmp_path / "cache").rglob(f"*{code_cache.SUFFIX}"):
        file.write_bytes(content)
    assert called(world.load().named, 3) == (8, False)
    assert called(world.load().named, 3) == (8, True)


def test_where_nothing_can_be_written_it_compiles_all_the_same(world, tmp_path, monkeypatch) -> None:
    (tmp_path / "full").touch()
    monkeypatch.setattr(code_cache, "folder", lambda home: tmp_path / "full")
    assert called(world.load().named, 3) == (8, False)
    assert called(world.load().named, 3) == (8, False)


def test_the_folder_that_numba_is_told_is_taken(world, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "told"))
    assert called(world.load().named, 3) == (8, False)
    assert list((tmp_path / "told" / "headgate").glob(f"caller.named-*{code_cache.SUFFIX}"))


def test_modules_that_name_each_other_are_told_once() -> None:
    one, other = ModuleType("one"), ModuleType("other")
    one.other, other.one, other.C = other, one, 1  # type: ignore[attr-defined]
    space = {"__name__": "here", "one": one}
    exec("def f(x):\n    return one.other.one.other.C\n", space)
    before = digest(space["f"])
    other.C = 2  # type: ignore[attr-defined]
    assert digest(space["f"]) != before
