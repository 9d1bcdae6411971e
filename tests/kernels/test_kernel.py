"""Kernels as they are declared: what is refused by name, timers, runs without Spark, and the page's examples."""

import re
import runpy
from datetime import timedelta
from pathlib import Path

import pytest
from tests.kernels.samples import fragile, helper, made

import headgate as hg
from headgate import errors


def test_a_timer_that_cannot_be_compiled_is_refused_when_it_is_given() -> None:
    kernel = hg.kernel(state={"n": int}, output={"z": float}, on="ts")(the_nth)
    with pytest.raises(errors.KernelRefused, match="helper cannot be called in a compiled kernel"):

        @kernel.on_timer
        def late(state, now):
            return helper(now)


def the_nth(state, row) -> None:
    state.n += 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"state": {"s": str}}, r"give its greatest length, as in hg.kernels.text\(16\)"),
        ({"state": {"n": list}}, "state field 'n' is <class 'list'>; it can be int"),
        ({"state": ["n"]}, r'give names and types, as in state=\{"n": int\}'),
        ({"state": {"a b": int}}, "use plain Python names"),
        ({"state": {"forget": int}}, r"state.forget\(\) is a method"),
        ({"output": {"z": timedelta}}, "it can be int, float, bool, str or datetime"),
        ({"output": {"k": float}}, "would emit column 'k' twice"),
        ({"keep": ["w"]}, "reads column 'w', but the stream has"),
        ({"on_error": "ignore"}, "on_error='ignore': it is 'fail' or 'skip'"),
        ({"max_steps": 0}, "max_steps=0 must be a whole number of at least 1"),
        ({"ttl": "1 hour"}, "has a ttl or delay but no event time"),
        ({"on": "x"}, "the time of a row is a timestamp, but 'x' is double"),
        ({"on": "ts", "ttl": "soon"}, "ttl='soon' is not a duration"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_cannot_be_declared_is_named(options, said) -> None:
    with pytest.raises(errors.ConfigError, match=said):
        made(lambda_free, **options)


def lambda_free(state, row) -> None:
    """Nothing."""


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: hg.kernels.ring(str, 3), r"ring\(str, ...\): a ring keeps int, float"),
        (lambda: hg.kernels.ring(float, 0), "0 is not a valid size; give the number of values"),
        (lambda: hg.kernels.text(True), "True is not a valid size"),
        (lambda: hg.kernels.mapping(float, int, 3), "the keys of a mapping are int or datetime"),
        (lambda: hg.kernels.mapping(int, str, 3), "its values are int, float"),
        (lambda: hg.kernels.emit(1), "can only be used inside the function of a kernel"),
        (lambda: hg.kernel(state={}, output={})(lambda state, row: None), "is not a plain function"),
        (lambda: hg.kernel(state={}, output={})(len), "is not a plain function"),
        (lambda: hg.kernel(state={}, output={})(helper), r"it must take exactly \(state, row\)"),
        (
            lambda: hg.kernel(state={}, output={})(lambda_free).on_timer(lambda_free),
            "has no event time for timers",
        ),
    ],
)
def test_misuse_is_named(make, said) -> None:
    with pytest.raises(errors.ConfigError, match=said):
        make()


def test_runs_are_checked() -> None:
    with pytest.raises(errors.ConfigError, match="key column 'w' is not among the rows' k, x"):
        hg.testing.run(fragile, [{"k": 1, "x": 2.0}], key="w")
    with pytest.raises(errors.ConfigError, match="are 3 rows, and there are 1"):
        hg.testing.run(fragile, [{"k": 1, "v": 1, "x": 2.0, "s": "a"}], batches=[1, 2])
    with pytest.raises(errors.ConfigError, match="no rows, and no schema"):
        hg.testing.run(fragile, [])
    with pytest.raises(errors.ConfigError, match="there are 1 rows in 1 batches"):
        hg.testing.run(fragile, [{"k": 1, "v": 1, "x": 2.0, "s": "a"}], late={0: 3})


def test_the_examples_of_the_page_run(tmp_path) -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "kernels.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    assert len(blocks) == 4
    (tmp_path / "page.py").write_text("\n".join(blocks))
    runpy.run_path(str(tmp_path / "page.py"))
