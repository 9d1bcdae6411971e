"""Rings, mappings and texts in generated code.

A ring is changed in place; what it was is noted before, so that the change is undone if the row fails. A
mapping is copied to spare memory when a row first changes it, and written back at the end of the row; a
text is written at the end of the row too. So what a row writes never overwrites what it still reads.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from headgate.kernels.arithmetic import OVERFLOW, ZERO, convert
from headgate.kernels.body import BOOL, FLOAT, INT, SHORT_OF_TABLE, TEXT, Body, Value
from headgate.kernels.fields import Map, Ring

RING_PARTS = ("off", "len", "cap", "at", "fresh")
MISSING_KEY, FULL_MAP = "the mapping has no such key", "the mapping is full"
OUT_OF_RANGE, EMPTY = "index out of range", "the ring is empty"
TOO_FEW = "the standard deviation needs at least two values"


def heap_of(ring: Ring) -> str:
    """The name of the heap, viewed as values of the ring's sort."""
    return "heap64" if ring.sort is FLOAT else "words"


def ring_bounds(body: Body, name: str, ring: Ring) -> tuple[str, str, str]:
    """(heap, first, end): where the values of a ring are."""
    first = body.temp(INT, f"(S_{name}_off[s] >> 3) + S_{name}_at[s]").code
    end = body.temp(INT, f"{first} + S_{name}_len[s]").code
    return heap_of(ring), first, end


def ring_length(name: str) -> Value:
    """`len(ring)`."""
    return Value(INT, f"S_{name}_len[s]")


def ring_append(body: Body, node: ast.AST, name: str, ring: Ring, value: Value) -> None:
    """`ring.append(value)`."""
    body.written.add(name)
    value = convert(body, node, value, ring.sort, f"ring {name!r}")
    parts = ", ".join(f"S_{name}_{part}" for part in RING_PARTS)
    body.put(
        f"if not ring_append(header, {heap_of(ring)}, {parts}, s, {value.code}, {ring.most}, note_{name}, lost_{name}):"
    )
    body.put(f"    return {SHORT_OF_TABLE}")


def ring_item(body: Body, node: ast.AST, name: str, ring: Ring, index: Value) -> Value:
    """`ring[index]`; a negative index counts from the end."""
    at = convert(body, node, index, INT, "an index").code
    heap, first, end = ring_bounds(body, name, ring)
    place = body.temp(INT, f"{at} + ({end} if {at} < 0 else {first})").code
    body.check(f"{place} < {first} or {place} >= {end}", node, OUT_OF_RANGE)
    return body.temp(ring.sort, f"{heap}[{place}]")


def ring_statistic(body: Body, node: ast.AST, name: str, ring: Ring, what: str) -> Value | None:
    """`ring.mean()` and the like; None if there is no such statistic."""
    if what not in ("sum", "mean", "min", "max", "std"):
        return None
    if what in ("sum", "mean", "std") and ring.sort not in (INT, FLOAT):
        body.refuse(node, f"a ring of {ring.sort} has no {what}", "use a ring of numbers")
    heap, first, end = ring_bounds(body, name, ring)
    window = f"{heap}, {first}, {end}"
    if what in ("min", "max"):
        body.check(f"{first} == {end}", node, EMPTY)
        return body.temp(ring.sort, f"{'smallest' if what == 'min' else 'largest'}({window})")
    if what == "std":
        if ring.sort is not FLOAT:
            body.refuse(node, "std is for rings of floats", "use a ring of floats")
        body.check(f"{end} - {first} < 2", node, TOO_FEW)
        return body.temp(FLOAT, f"deviation({window})")
    if ring.sort is FLOAT:
        total = body.temp(FLOAT, f"total_of({window})")
    else:
        body.check(f"sum_overflows({window})", node, OVERFLOW)
        total = body.temp(INT, f"whole_sum({window})")
    if what == "sum":
        return total
    body.check(f"{first} == {end}", node, ZERO)
    return body.temp(FLOAT, f"float({total.code}) / float({end} - {first})")


# In generated code a mapping `x` is m_x_w (its words), m_x_o (the position of its first entry) and m_x_n
# (its number of entries); m_x_d says whether it has been copied to spare memory.


def map_length(name: str) -> Value:
    """`len(mapping)`."""
    return Value(INT, f"m_{name}_n")


def _place(body: Body, node: ast.AST, name: str, kind: Map, key: Value) -> tuple[str, str]:
    code = convert(body, node, key, kind.key, f"a key of mapping {name!r}").code
    return code, body.temp(INT, f"find(m_{name}_w, m_{name}_o, m_{name}_n, {code})").code


def _value(kind: Map, word: str) -> str:
    if kind.value is FLOAT:
        return f"float_of({word})"
    return f"{word} != 0" if kind.value is BOOL else word


def map_has(body: Body, node: ast.AST, name: str, kind: Map, key: Value) -> str:
    """The condition `key in mapping`."""
    return f"{_place(body, node, name, kind, key)[1]} >= 0"


def map_item(body: Body, node: ast.AST, name: str, kind: Map, key: Value) -> Value:
    """`mapping[key]`."""
    _, place = _place(body, node, name, kind, key)
    body.check(f"{place} < 0", node, MISSING_KEY)
    return body.temp(kind.value, _value(kind, f"m_{name}_w[m_{name}_o + 2 * {place} + 1]"))


def map_get(body: Body, node: ast.AST, name: str, kind: Map, args: Sequence[Value]) -> Value:
    """`mapping.get(key, default)`."""
    if len(args) != 2:
        body.refuse(node, "get takes a key and a default", f"write state.{name}.get(key, 0)")
    _, place = _place(body, node, name, kind, args[0])
    default = convert(body, node, args[1], kind.value, f"the default of mapping {name!r}")
    result = body.temp(kind.value, default.code)
    with body.block(f"if {place} >= 0:"):
        body.put(f"{result.code} = {_value(kind, f'm_{name}_w[m_{name}_o + 2 * {place} + 1]')}")
    return result


def _copy_once(body: Body, name: str) -> None:
    """Copy a mapping to spare memory, unless this row has done so already."""
    body.written.add(name)
    with body.block(f"if not m_{name}_d:"):
        body.put(f"copy(m_{name}_w, m_{name}_o, 2 * m_{name}_n, spare, spare_{name})")
        body.put(f"m_{name}_w = spare")
        body.put(f"m_{name}_o = spare_{name}")
        body.put(f"m_{name}_d = True")


def map_put(body: Body, node: ast.AST, name: str, kind: Map, key: Value, value: Value) -> None:
    """`mapping[key] = value`."""
    value = convert(body, node, value, kind.value, f"a value of mapping {name!r}")
    held = body.temp(kind.value, value.code).code
    code, place = _place(body, node, name, kind, key)
    _copy_once(body, name)
    with body.block(f"if {place} < 0:"):
        body.check(f"m_{name}_n == {kind.most}", node, FULL_MAP)
        body.put(f"{place} = m_{name}_n")
        body.put(f"m_{name}_n += 1")
        body.put(f"m_{name}_w[m_{name}_o + 2 * {place}] = {code}")
    word = (
        f"word_of({held})"
        if kind.value is FLOAT
        else (f"(1 if {held} else 0)" if kind.value is BOOL else held)
    )
    body.put(f"m_{name}_w[m_{name}_o + 2 * {place} + 1] = {word}")


def map_delete(body: Body, node: ast.AST, name: str, kind: Map, key: Value) -> None:
    """`del mapping[key]`."""
    _, place = _place(body, node, name, kind, key)
    body.check(f"{place} < 0", node, MISSING_KEY)
    _copy_once(body, name)
    body.put(f"drop(m_{name}_w, m_{name}_o, m_{name}_n, {place})")
    body.put(f"m_{name}_n -= 1")


def map_clear(body: Body, name: str) -> None:
    """`mapping.clear()`."""
    _copy_once(body, name)
    body.put(f"m_{name}_n = 0")


def text_length(body: Body, value: Value) -> Value:
    """`len(text)`."""
    return body.temp(INT, f"characters({', '.join(value.parts)})")


def text_method(body: Body, node: ast.AST, value: Value, method: str, args: Sequence[Value]) -> Value | None:
    """`text.startswith(other)` and `endswith`; None if there is no such method."""
    if method not in ("startswith", "endswith") or len(args) != 1 or args[0].sort is not TEXT:
        return None
    (a, i, n), (b, j, m) = value.parts, args[0].parts
    start = i if method == "startswith" else f"{i} + {n} - {m}"
    return body.temp(BOOL, f"{n} >= {m} and same({a}, {start}, {m}, {b}, {j}, {m})")


def text_prefix(body: Body, node: ast.AST, value: Value, count: Value) -> Value:
    """`text[:count]`."""
    code = convert(body, node, count, INT, "an index").code
    body.check(f"{code} < 0", node, "text[:n] needs n >= 0")
    length = body.temp(INT, f"prefix({', '.join(value.parts)}, {code})")
    return body.text(value.parts[0], value.parts[1], length.code)
