"""Bound kernels: rows that fail, identity, bins that are due, and the way to another process."""

import datetime as dt
import pickle

import numpy as np
import pyarrow as pa
import pytest
from tests.kernels.samples import KEY, LIMIT, SCHEMA, STATE, fragile, made

import headgate as hg
from headgate import errors
from headgate.kernels.compiled_loop import CompiledLoop
from headgate.operators.arrival import CLOSED
from headgate.operators.channel_run import ChannelRun
from headgate.state.table import BinTable


@pytest.mark.parametrize("how", [True, False], ids=["compiled", "interpreted"])
def test_a_row_that_fails_changes_nothing_and_goes_aside_with_the_reason(how) -> None:
    wanted = {
        "zero": "division by zero",
        "overflow": "integer overflow beyond 64 bits",
        "domain": "math domain error",
        "exponent": "float overflow",
        "endless": "more than 100 loop iterations (max_steps)",
        "long": "a text has more bytes than field 's' may hold (4)",
        "index": "index out of range",
        "key": "the mapping has no such key",
        "full": "the mapping is full",
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
        r"kernel fragile failed on a row of key k=1: division by zero, at .*samples.py:\d+ "
        r"\(`return 1 / \(row.v - row.v\)`\); fix the kernel or the data, or pass on_error='skip'"
    )
    with pytest.raises(errors.KernelFailed, match=said):
        hg.testing.run(kernel, [{"k": 1, "v": 5, "x": 2.0, "s": "zero"}])


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
    assert "cannot split a key, because its function needs all rows of a key in order" in bound.whole


def test_a_bound_kernel_travels() -> None:
    kernel = hg.kernel(**fragile.options)(fragile.function)
    bound = kernel.bind(KEY, SCHEMA)
    again = pickle.loads(pickle.dumps(bound))
    assert again.fingerprint() == bound.fingerprint()
    assert isinstance(again._loop, CompiledLoop)
    assert isinstance(bound._loop, CompiledLoop)
    assert again._loop._module is bound._loop._module, "the same code is loaded once"
