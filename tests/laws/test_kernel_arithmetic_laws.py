"""Arithmetic in kernels: every operation compiled gives what it gives interpreted, and what Python gives."""

import math
from types import SimpleNamespace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate.testing.arrow import printed


def interpreted(kernel):
    """The same kernel, not compiled."""
    made = hg.kernel(**{**kernel.options, "compiled": False})(kernel.function)
    if kernel.timer is not None:
        made.on_timer(kernel.timer)
    return made


def in_order(aside):
    """Rows put aside, by number."""
    return sorted(repr(sorted(row.items())) for row in aside)


@hg.kernel(state={}, output={"whole": int, "real": float, "truth": bool}, keep=["id"], on_error="skip")
def arithmetic(state, row):
    """One operation a row."""
    a, b, x, y, op = row.a, row.b, row.x, row.y, row.op
    if op == 0:
        return a + b, a + x, a < b
    if op == 1:
        return a - b, x - a, a <= x
    if op == 2:
        return a * b, x * y, x == b
    if op == 3:
        return a // b, x // y, a != b
    if op == 4:
        return a % b, x % y, x >= y or a > b
    if op == 5:
        return -a, a / b, not a
    if op == 6:
        return abs(a), x / y, bool(x)
    if op == 7:
        return a**3, x**2, a == x
    if op == 8:
        return a << b, x**y, (a & 1) == 1
    if op == 9:
        return a >> b, math.exp(x), math.isnan(x)
    if op == 10:
        return int(x), math.log(x), bool(a and b)
    if op == 11:
        return round(x), math.sqrt(x), 0 < a < b < 10
    if op == 12:
        return math.floor(x), min(x, y, 0), row.c is None
    if op == 13:
        return max(a, b, 7), x if a > b else 0, row.s in ("a", "bc")
    if op == 14:
        return (a & b) | (a ^ 5), float(a), "b" in row.s
    if op == 15:
        return len(row.s), math.atan2(x, y), row.s < "b"
    if op == 16:
        return math.ceil(y) + ~a, (a or b) * 1.5, row.c is not None and row.c
    if op == 17:
        n = 0
        while n < a:
            n += 1
        return n, math.tanh(x) + math.sin(y), True
    if op == 18:
        total = 0
        for i in range(b, a, 3):
            if i == 5:
                continue
            if i > 40:
                break
            total += i
        return total, math.pow(x, 2), row.s.endswith("c")
    raise ValueError("no such operation")


INTS = (
    st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 70) | st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1])
)
FLOATS = st.floats() | st.integers(-9, 9).map(float) | st.sampled_from([0.5, 1e300, -0.0, 2.0**63])
ROWS = st.fixed_dictionaries(
    {
        "op": st.integers(0, 19),
        "a": INTS,
        "b": INTS,
        "x": FLOATS,
        "y": FLOATS,
        "c": st.none() | st.booleans(),
        "s": st.sampled_from(["", "a", "bc", "é", "abc"]),
    }
)
KINDS = {"op": pa.int64(), "a": pa.int64(), "b": pa.int64(), "x": pa.float64(), "y": pa.float64()}
KINDS |= {"c": pa.bool_(), "s": pa.string(), "id": pa.int64()}
ARITHMETIC = hg.kernel(**{**arithmetic.options, "max_steps": 60})(arithmetic.function)  # type: ignore[arg-type]


@given(rows=st.lists(ROWS, min_size=1, max_size=60))
def test_every_operation_interpreted_is_compiled(rows) -> None:
    table = pa.Table.from_pylist([{**r, "id": n} for n, r in enumerate(rows)], schema=pa.schema(KINDS))
    fast, slow = (hg.testing.run(k, table, key="op") for k in (ARITHMETIC, interpreted(ARITHMETIC)))
    assert printed(fast.table) == printed(slow.table)
    assert in_order(fast.aside) == in_order(slow.aside)


def test_operations_are_pythons_own_where_numbers_are_small() -> None:
    """The interpreted kernel is held to 64 bits; here to Python itself, so that both cannot be wrong alike."""
    numbers = [-7, -2, -1, 1, 2, 3, 10]
    rows = [
        {"op": op, "a": a, "b": b, "x": a / 2, "y": float(b), "c": None, "s": "bc", "id": 0}
        for op in range(19)
        for a in numbers
        for b in numbers
    ]
    for n, row in enumerate(rows):
        row["id"] = n
    ran = hg.testing.run(ARITHMETIC, pa.Table.from_pylist(rows, schema=pa.schema(KINDS)), key="op")
    found = {row["id"]: (row["whole"], row["real"], row["truth"]) for row in ran.rows}
    wanted = {}
    for row in rows:
        try:
            whole, real, truth = arithmetic.function(None, SimpleNamespace(**row))
        except (ArithmeticError, ValueError):
            continue
        if not isinstance(real, complex):
            wanted[row["id"]] = (whole, float(real), bool(truth))
    assert found == wanted


MOST = 2**63 - 1
edges = st.sampled_from(
    [0, 1, -1, 2, -2, 4, 2**31, -(2**31), 2**32, 2**62, -(2**62), MOST - 1, MOST, -MOST, -MOST - 1]
)
wholes = st.one_of(edges, st.integers(-MOST - 1, MOST))


@hg.kernel(state={"n": int}, output={"what": int, "value": int}, on_error="skip")
def whole_numbers(state, row):
    if row.op == 0:
        return 0, row.a + row.b
    if row.op == 1:
        return 1, row.a - row.b
    if row.op == 2:
        return 2, row.a * row.b
    if row.op == 3:
        return 3, row.a * 9223372036854775807
    if row.op == 4:
        return 4, row.a + 9223372036854775807
    return 5, -row.a - 2


EXACT = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a * MOST,
    lambda a, b: a + MOST,
    lambda a, b: -a - 2 if a != -MOST - 1 else MOST + 1,
]


@given(st.lists(st.tuples(st.integers(0, len(EXACT) - 1), wholes, wholes), min_size=1, max_size=20))
def test_whole_numbers_are_exact_or_a_failure_of_the_row(drawn) -> None:
    rows = [{"k": 1, "op": op, "a": a, "b": b} for op, a, b in drawn]
    ran = hg.testing.run(whole_numbers, rows)
    exact = [(op, EXACT[op](a, b)) for op, a, b in drawn]
    fits = [(op, value) for op, value in exact if -MOST - 1 <= value <= MOST]
    assert [(row["what"], row["value"]) for row in ran.rows] == fits
    assert len(ran.aside) == len(rows) - len(fits)
