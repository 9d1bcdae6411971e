"""User kernels: what is refused and how, failures by name, fields, identity, and the cache of compiled code."""

import datetime as dt
import pickle
import re
import runpy
import subprocess
import sys
from datetime import timedelta
from math import sqrt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import headgate as hg
from headgate import compiled, errors
from headgate.kernels.compiled_loop import CompiledLoop
from headgate.operators.arrival import CLOSED
from headgate.operators.channel_run import ChannelRun
from headgate.state.keys import KeySpec
from headgate.state.table import BinTable

STATE = {
    "n": int,
    "x": float,
    "on": bool,
    "t": dt.datetime,
    "s": hg.text(4),
    "last": hg.ring(float, 3),
    "m": hg.map(int, float, 2),
}
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("d", pa.decimal128(9, 2)),
    ]
)
KEY = KeySpec(("k",), (pa.int64(),))
LIMIT, NAMES = 3.5, ["a", "b"]


def made(function, *, state=STATE, output=None, **options):
    """A kernel of a function, bound."""
    return hg.kernel(state=state, output=output or {"z": float}, **options)(function).bind(KEY, SCHEMA)


def helper(x):
    return x


def a_float_in_a_whole_number(state, row) -> None:
    state.n += row.x


def a_local_that_may_be_unset(state, row):
    if row.v > 3:
        y = 1.0
    return y


def a_local_of_two_sorts(state, row):
    y = row.v
    if row.v > 3:
        y = "a"
    return y


def a_float_and_a_whole_number(state, row):
    y = row.v
    y = row.x
    return y


def a_field_that_is_not_there(state, row) -> None:
    state.count += 1


def a_column_that_is_not_there(state, row):
    return row.amount


def a_column_of_decimals(state, row):
    return row.d


def a_list_from_outside(state, row):
    return NAMES[row.v]


def an_unknown_name(state, row):
    return sqroot(row.x)  # type: ignore[name-defined]  # noqa: F821


def a_function_of_ones_own(state, row):
    return helper(row.x)


def a_sum_of_texts(state, row) -> None:
    state.s = row.s + "a"


def a_local_that_is_none(state, row):
    y = row.x
    if y is None:
        return 0.0


def two_values_for_one_column(state, row):
    return row.x, row.x


def the_wrong_name_of_a_column(state, row) -> None:
    hg.emit(zz=row.x)


def a_comprehension(state, row):
    return sum(v * v for v in state.last)


def a_try(state, row):
    try:
        return 1.0 / row.x
    except ZeroDivisionError:
        return 0.0


def an_f_string(state, row) -> None:
    state.s = f"{row.v}"


def a_power_that_is_not_written_out(state, row) -> None:
    state.n = row.v**row.v


def a_ring_that_is_changed_while_it_is_walked(state, row) -> None:
    for v in state.last:
        state.last.append(v)


def a_ring_that_is_assigned(state, row) -> None:
    state.last = row.x


def a_row_that_is_changed(state, row) -> None:
    row.x = 1.0


def a_timer_without_a_time(state, row) -> None:
    state.wake_at(row.ts)


def a_text_compared_with_a_number(state, row) -> float:
    return 1.0 if row.s == row.v else 0.0


def a_yield_and_a_return(state, row):
    yield row.x
    return row.x


def a_loop_over_a_number(state, row) -> None:
    for i in row.v:
        state.n += i


def a_number_of_65_bits(state, row) -> None:
    state.n = 2**3 + 9223372036854775808


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (a_float_in_a_whole_number, r"state.n is int and is given float; write int\(...\) or round\(...\)"),
        (a_local_that_may_be_unset, "y may have no value here; give it one before the if or the loop"),
        (a_local_of_two_sorts, "y is int and is given str"),
        (a_float_and_a_whole_number, r"y is a float elsewhere and a whole number here; write float\(...\)"),
        (a_field_that_is_not_there, "state has no field 'count'; it has n, x, on, t, s, last, m"),
        (
            a_column_that_is_not_there,
            "the stream has no column 'amount'; it has k, v, x",
        ),
        (a_column_of_decimals, r"column 'd' has type decimal128\(.*\), which a kernel cannot read; cast it"),
        (a_list_from_outside, "NAMES is a list; .* keep what changes in state"),
        (an_unknown_name, "sqroot is not defined; there are abs, bool"),
        (a_function_of_ones_own, "helper cannot be called in a compiled kernel"),
        (a_sum_of_texts, r"str \+ str is not known here; texts can be compared, stored and cut"),
        (a_local_that_is_none, "only a column of the row can be None; write `row.x is None`, before"),
        (two_values_for_one_column, "a row has z, and here are 2 values; emit a value for each column"),
        (the_wrong_name_of_a_column, "a row has z, and here are zz"),
        (a_comprehension, "a comprehension cannot be compiled; write a for loop, or pass compiled=False"),
        (a_try, "try cannot be compiled; test for what may go wrong, or pass on_error='skip'"),
        (an_f_string, "an f-string cannot be compiled"),
        (a_power_that_is_not_written_out, r"write float\(x\) \*\* y"),
        (a_ring_that_is_changed_while_it_is_walked, "state.last is changed while it is walked"),
        (a_ring_that_is_assigned, r"state.last is a ring\(float, 3\); change it with append"),
        (a_row_that_is_changed, "the row cannot be changed; assign to a local or to a field of state"),
        (a_timer_without_a_time, "this kernel has no event time or no on_timer"),
        (a_text_compared_with_a_number, "a str is compared with a int; convert one of them"),
        (a_yield_and_a_return, "a kernel that yields returns nothing; yield this row too"),
        (a_loop_over_a_number, r"a loop goes over range\(...\), a ring or a map"),
        (a_number_of_65_bits, "9223372036854775808 does not fit 64 bits"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_what_cannot_be_compiled_is_refused_with_file_line_and_remedy(function, said) -> None:
    first = function.__code__.co_firstlineno
    with pytest.raises(errors.KernelRefused, match=said) as refused:
        made(function)
    file, line = str(refused.value).split(" ")[0].rsplit(":", 1)
    assert Path(file).name == "test_user_kernel.py"
    assert first < int(line.rstrip(":")) < first + 9
    assert f"kernel {function.__name__}: " in str(refused.value)


def columns_of_unlike_sorts(state, row):
    if row.s == "a" and row.ts > state.t + timedelta(minutes=1):
        state.t = row.ts
        state.s = row.s
    return row.x * row.v


@pytest.mark.parametrize(
    ("function", "at_once"),
    [
        (a_function_of_ones_own, True),
        (an_unknown_name, True),
        (a_field_that_is_not_there, True),
        (a_ring_that_is_assigned, True),
        (a_number_of_65_bits, True),
        (two_values_for_one_column, True),
        (a_try, True),
        (a_float_in_a_whole_number, False),
        (a_text_compared_with_a_number, False),
        (a_column_that_is_not_there, False),
        (a_column_of_decimals, False),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_what_no_columns_could_mend_is_refused_when_the_kernel_is_made(function, at_once) -> None:
    make = hg.kernel(state=STATE, output={"z": float})
    if at_once:
        with pytest.raises(errors.KernelRefused, match=f"kernel {function.__name__}: "):
            make(function)
    else:
        kernel = make(function)
        with pytest.raises(errors.KernelRefused):
            kernel.bind(KEY, SCHEMA)


def test_a_kernel_whose_columns_differ_in_sort_is_not_refused() -> None:
    assert made(columns_of_unlike_sorts).inputs == ("v", "x", "s", "ts")


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
        ({"state": {"s": str}}, r"say how long it may be, as in hg.text\(16\)"),
        ({"state": {"n": list}}, "state field 'n' is <class 'list'>; it can be int"),
        ({"state": ["n"]}, r'give names and types, as in state=\{"n": int\}'),
        ({"state": {"a b": int}}, "use plain Python names"),
        ({"state": {"forget": int}}, r"that is what state.forget\(\) does"),
        ({"output": {"z": timedelta}}, "it can be int, float, bool, str or datetime"),
        ({"output": {"k": float}}, "would emit column 'k' twice"),
        ({"keep": ["w"]}, "reads column 'w', but the stream has"),
        ({"on_error": "ignore"}, "on_error='ignore': it is 'fail' or 'skip'"),
        ({"max_steps": 0}, "a row takes at least one step"),
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
        (lambda: hg.ring(str, 3), r"ring\(str, ...\): a ring keeps int, float"),
        (lambda: hg.ring(float, 0), "0 is not a bound; say how many values"),
        (lambda: hg.text(True), "True is not a bound"),
        (lambda: hg.map(float, int, 3), "the keys of a map are int or datetime"),
        (lambda: hg.map(int, str, 3), "its values are int, float"),
        (lambda: hg.emit(1), "means nothing outside"),
        (lambda: hg.kernel(state={}, output={})(lambda state, row: None), "is not a plain function"),
        (lambda: hg.kernel(state={}, output={})(len), "is not a plain function"),
        (lambda: hg.kernel(state={}, output={})(helper), r"it must take exactly \(state, row\)"),
        (
            lambda: hg.kernel(state={}, output={})(lambda_free).on_timer(lambda_free),
            "has no event time to wake by",
        ),
    ],
)
def test_misuse_is_named(make, said) -> None:
    with pytest.raises(errors.ConfigError, match=said):
        make()


# -- running


@hg.kernel(
    state={"n": int, "x": float, "s": hg.text(4), "last": hg.ring(float, 3), "m": hg.map(int, float, 2)},
    output={"z": float},
    on_error="skip",
    max_steps=100,
)
def fragile(state, row):
    """Fails in every way there is; each row names one."""
    state.n += 1
    state.last.append(1.0)
    state.m[state.n] = 0.5
    if row.s == "zero":
        return 1 / (row.v - row.v)
    if row.s == "overflow":
        state.n = row.v + 9223372036854775807
    if row.s == "domain":
        return sqrt(-row.x)
    if row.s == "exponent":
        return row.x**1e9
    if row.s == "endless":
        while True:
            state.n += 1
    if row.s == "long":
        state.s = "längst"
    if row.s == "index":
        return state.last[3]
    if row.s == "key":
        return state.m[9]
    if row.s == "full":
        state.m[7] = 1.0
        state.m[8] = 1.0
    if row.s == "raise":
        raise ValueError("on purpose")
    assert row.s != "assert", "it must not be"
    return row.x


@pytest.mark.parametrize("how", [True, False], ids=["compiled", "interpreted"])
def test_a_row_that_fails_changes_nothing_and_goes_aside_with_the_reason(how) -> None:
    wanted = {
        "zero": "division by zero",
        "overflow": "a whole number leaves 64 bits",
        "domain": "math domain error",
        "exponent": "a float is too large",
        "endless": "it takes more than 100 steps",
        "long": "a text has more bytes than field 's' may hold (4)",
        "index": "index out of range",
        "key": "the map has no such key",
        "full": "the map is full",
        "raise": "on purpose",
        "assert": "it must not be",
        None: "column 's' is null",
    }
    rows = [{"k": 1, "v": 5, "x": 2.0, "s": "fine"}]
    rows += [{"k": 1, "v": 5, "x": 2.0, "s": s} for s in wanted]
    kernel = hg.kernel(**{**fragile.options, "compiled": how})(fragile.function)
    ran = hg.testing.run(kernel, rows)
    assert ran.rows == [{"k": 1, "z": 2.0}]
    assert {row["s"]: row["reason"].rsplit(" (line", 1)[0] for row in ran.aside} == wanted
    assert ran.state == {1: {"n": 1, "x": 0.0, "s": "", "last": [1.0], "m": {1: 0.5}}}


@pytest.mark.parametrize("how", [True, False], ids=["compiled", "interpreted"])
def test_a_failure_names_key_file_line_and_remedy(how) -> None:
    kernel = hg.kernel(**{**fragile.options, "compiled": how, "on_error": "fail"})(fragile.function)
    said = (
        r"kernel fragile failed on a row of key k=1: division by zero, at .*test_user_kernel.py:\d+ "
        r"\(`return 1 / \(row.v - row.v\)`\); mend the kernel or the row, or pass on_error='skip'"
    )
    with pytest.raises(errors.KernelFailed, match=said):
        hg.testing.run(kernel, [{"k": 1, "v": 5, "x": 2.0, "s": "zero"}])


def test_interpreted_kernels_may_do_what_compiled_ones_may_not() -> None:
    seen = []

    @hg.kernel(state={"n": int}, output={"z": str}, compiled=False)
    def free(state, row):
        try:
            seen.append(helper(row.v))
            return f"{row.v} " + ",".join(str(i) for i in range(row.v))
        finally:
            state.n += 1

    assert hg.testing.run(free, [{"k": 1, "v": 2}]).rows == [{"k": 1, "z": "2 0,1"}]
    assert seen == [2]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ((1.0, 2.0), "a row has z, and here are 2 values"),
        ({"y": 1.0}, "a row has z, and here are y"),
        ("text", "output column 'z' is float and is given 'text'"),
    ],
)
def test_interpreted_kernels_are_held_to_their_shape(value, said) -> None:
    @hg.kernel(state={}, output={"z": float}, compiled=False)
    def wrong(state, row):
        return value

    with pytest.raises(errors.KernelFailed, match=said):
        hg.testing.run(wrong, [{"k": 1}])


def fine(state, row):
    """How it is said does not matter."""
    return row.x + LIMIT


def test_the_identity_is_what_it_does_and_not_how_it_is_written(tmp_path, monkeypatch) -> None:
    def identity():
        return made(fine, compiled=False).fingerprint()

    before = identity()
    assert before["operator"] == "kernel(fine)"
    assert made(fine, compiled=False, on_error="skip").fingerprint() == before
    monkeypatch.setattr(fine, "__doc__", "Other words.")
    assert identity() == before
    monkeypatch.setitem(fine.__globals__, "LIMIT", 4.5)
    changed = identity()
    assert {name for name in before if before[name] != changed[name]} == {"source"}
    assert made(fine, state={**STATE, "n": float}, compiled=False).fingerprint()["fields"] != before["fields"]


def test_a_bin_is_due_by_its_own_keys_alone() -> None:
    """Else every bin would be opened when one is due."""

    @hg.kernel(state={}, output={}, on="ts", compiled=False)
    def nap(state, row) -> None:
        state.wake_at(row.ts)

    @nap.on_timer
    def awake(state, now) -> None:
        state.forget()

    bound = nap.bind(KEY, SCHEMA)
    rows = pa.RecordBatch.from_pylist(
        [{"k": k, "ts": dt.datetime(2024, 1, k, tzinfo=dt.UTC)} for k in (1, 2, 3)], schema=SCHEMA
    ).append_column(CLOSED, pa.array([0, 0, 0]))
    tables = [BinTable.create(bound.layout) for _ in range(3)]
    run = ChannelRun(bound, lambda b: tables[b], 3)
    run.feed(rows, np.arange(3), np.arange(3, dtype=np.int32))
    assert [table.due for table in tables] == rows.column("ts").cast(pa.int64()).to_pylist()


def test_it_cannot_be_split_and_says_why() -> None:
    bound = made(fine, compiled=False)
    assert bound.resources == "CLL"
    assert bound.ordered
    assert "cannot split a key, since it sees the rows of a key one after the other" in bound.whole


def test_a_bound_kernel_travels() -> None:
    kernel = hg.kernel(**{**fragile.options})(fragile.function)
    bound = kernel.bind(KEY, SCHEMA)
    again = pickle.loads(pickle.dumps(bound))
    assert again.fingerprint() == bound.fingerprint()
    assert isinstance(again._loop, CompiledLoop)
    assert isinstance(bound._loop, CompiledLoop)
    assert again._loop._module is bound._loop._module, "the same code is loaded once"


def test_what_is_compiled_is_found_by_the_next_process(tmp_path) -> None:
    script = """
import numba, headgate.compiled as c
m = c.generated("one", "from headgate.compiled import bare\\n@bare\\ndef f(x):\\n    return x + 1\\n")
print(m.f(1), sum(m.f.stats.cache_hits.values()), m.__file__)
"""
    said = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert [one[:2] for one in said] == [["2", "0"], ["2", "1"]]
    assert said[0][2] == said[1][2]
    assert Path(said[0][2]).parent.parent == tmp_path


def test_generated_code_is_made_anew_when_what_it_uses_changes(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one, two = (compiled.generated("two", "x = 1\n", module) for module in (errors, pickle))
    assert one.__file__ != two.__file__


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
    page = Path(__file__).parents[2] / "docs" / "kernels.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    assert len(blocks) == 4
    (tmp_path / "page.py").write_text("\n".join(blocks))
    runpy.run_path(str(tmp_path / "page.py"))
