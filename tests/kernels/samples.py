"""A state and a stream with a field of every type, and kernels for several tests."""

import datetime as dt
from math import sqrt

import pyarrow as pa

import headgate as hg
from headgate.state.keys import KeySpec

STATE = {
    "n": int,
    "x": float,
    "on": bool,
    "t": dt.datetime,
    "s": hg.kernels.text(4),
    "last": hg.kernels.ring(float, 3),
    "m": hg.kernels.mapping(int, float, 2),
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


@hg.kernel(
    state={
        "n": int,
        "x": float,
        "s": hg.kernels.text(4),
        "last": hg.kernels.ring(float, 3),
        "m": hg.kernels.mapping(int, float, 2),
    },
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
