"""The text of a compiled kernel: the function of one row, and the loop over a bin's rows.

The function of a row returns 0 when it has written everything. Otherwise it has changed nothing but
rings, which the loop then restores, and returns a number: negative if memory is short, positive if the
row failed (the number of a `Site`). The loop puts failed rows aside, or stops at the first one.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.kernels import statements
from headgate.kernels.body import SHORT_OF_OUTPUT, SHORT_OF_TABLE, ZEROS, Body, Site
from headgate.kernels.containers import RING_PARTS, heap_of
from headgate.kernels.expressions import row_code
from headgate.kernels.fields import Field, Map, Ring, Scalar, Sort, Text
from headgate.kernels.function_source import FunctionSource
from headgate.kernels.outputs import BAD, CODE, DEFERRED, DROPPED, OUT, SOONEST
from headgate.state.index import SHORT_OF_HEAP

HEAD = '''"""A kernel of headgate, generated from the user's function; do not edit."""

import math

import numpy as np

from headgate.compiled import bare
from headgate.operators.history import total_of
from headgate.kernels.runtime import *
from headgate.state.index import FOREVER, HEAP_SIZE, HEAP_USED, NEED
from headgate.state.kernels import put_bytes
'''


LOOP = ("slots", "order", "lo", "skip", "reborn", "bad_row", "bad_site", "dropped", "deferred")
"""The parameters of a loop after the arrays."""


@dataclass(frozen=True)
class Program:
    """The code to compile, and what its caller has to know."""

    text: str
    row: tuple[str, ...]
    timer: tuple[str, ...] | None
    """The parameters of the loop over rows, and of the loop over timers."""
    sites: tuple[Site, ...]
    reads: tuple[str, ...]
    """The columns of the stream that are read."""
    promoted: frozenset[tuple[int, int]]
    """The places (line, column) of integer literals that are used as floats."""
    literals: bytes
    arena: int
    spare: int
    """The bytes for texts and the words for mappings that a row needs while it runs."""
    forgets: bool


@dataclass(frozen=True)
class Shape:
    """What a kernel's functions have in common."""

    state: Mapping[str, Field]
    row: Mapping[str, Sort]
    output: Mapping[str, Sort]
    max_steps: int
    time: str | None = None
    ttl: int | None = None
    timed: bool = False
    """Whether there is a function for timers."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Columns whose type kernels cannot read, with that type."""


def program(shape: Shape, source: FunctionSource, timer: FunctionSource | None = None) -> Program:
    """Lower a kernel."""
    arena, spare, places = 0, 0, []
    for name, kind in shape.state.items():
        if isinstance(kind, Text):
            places.append(f"arena_{name} = {arena}")
            arena += kind.most
        elif isinstance(kind, Map):
            places.append(f"spare_{name} = {spare}")
            spare += 2 * kind.most
    sites: list[Site] = []
    texts = bytearray()
    row = lowered(shape, source, sites, texts, timed=False)
    bodies = [row] if timer is None else [row, lowered(shape, timer, sites, texts, timed=True)]
    lists = [_parameters(shape, body) for body in bodies]
    text = [HEAD, *places, ""]
    for body, parameters in zip(bodies, lists, strict=True):
        text += [*_function(shape, body, parameters), *_loop(shape, body, parameters)]
    return Program(
        "\n".join([*text, ""]),
        lists[0],
        lists[1] if timer is not None else None,
        tuple(sites),
        tuple(name for name in shape.row if name in row.reads),
        frozenset().union(*(body.promoted for body in bodies)),
        bytes(texts),
        arena,
        spare,
        any(body.forgets for body in bodies),
    )


def lowered(
    shape: Shape, source: FunctionSource, sites: list[Site], texts: bytearray, *, timed: bool
) -> Body:
    """Lower one function, repeatedly until the sorts of all its local variables are known."""
    names = frozenset(
        n.id for n in ast.walk(source.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )
    floats: set[str] = set()
    known = len(sites)
    while True:
        body = Body(
            source,
            shape.state,
            shape.row,
            shape.output,
            shape.max_steps,
            sites,
            texts,
            timed=timed,
            wakes=shape.timed,
            names=names,
            unread=shape.unread,
            floats=set(floats),
        )
        if shape.ttl is not None and not timed:
            assert shape.time is not None
            body.reads.add(shape.time)
        statements.block(body, source.tree.body)
        if body.assigned is not None:
            statements.finish(body)
        if body.floats == floats:
            return body
        floats = body.floats
        del sites[known:]


def _parameters(shape: Shape, body: Body) -> tuple[str, ...]:
    names = ["header", "heap", "heap64", "words", "stamp", "literals", "arena", "spare", "spare8"]
    for name, kind in shape.state.items():
        if isinstance(kind, Scalar):
            names.append(f"S_{name}")
        elif isinstance(kind, Ring):
            names += [f"S_{name}_{part}" for part in RING_PARTS] + [f"note_{name}", f"lost_{name}"]
        else:
            names += [f"S_{name}_off", f"S_{name}_len"]
    names += ["S__wake"] * shape.timed + ["S__expiry"] * (shape.ttl is not None)
    for name in shape.row:
        if name in body.reads:
            code = row_code(body, name)
            names += [f"R_{code}", f"V_{code}"] + ([f"F_{code}"] if body.row[name] is Sort.TEXT else [])
    names += ["counts", "O_row"]
    for at, sort in enumerate(body.output.values()):
        names += [f"O_{at}", f"N_{at}"] + ([f"B_{at}"] if sort is Sort.TEXT else [])
    return tuple(names)


def _name(body: Body) -> str:
    return "timer" if body.timed else "row"


def _function(shape: Shape, body: Body, parameters: tuple[str, ...]) -> list[str]:
    lines = ["@bare", f"def one_{_name(body)}(s, r, reborn, dropped, {', '.join(parameters)}):"]
    lines += ["    " + line for line in _prologue(shape, body)]
    written = _epilogue(shape, body)
    for line in body.lines:
        if line.strip() == statements.FINISH:
            indent = line[: len(line) - len(line.lstrip())]
            lines += [indent + statement for statement in written]
        else:
            lines.append(line)
    return [*lines, ""]


def _prologue(shape: Shape, body: Body) -> list[str]:
    out = ["steps = 0", f"out = counts[{OUT}]"]
    for name, kind in body.state.items():
        if isinstance(kind, Scalar):
            out.append(f"s_{name} = S_{name}[s]" + (" != 0" if kind.sort is Sort.BOOL else ""))
        elif isinstance(kind, Text):
            out.append(f"s_{name}_b, s_{name}_o, s_{name}_n = heap, S_{name}_off[s], S_{name}_len[s]")
            out.append(f"s_{name}_d = False")
        elif isinstance(kind, Map):
            out.append(
                f"m_{name}_w, m_{name}_o, m_{name}_n = words, S_{name}_off[s] >> 3, S_{name}_len[s] >> 4"
            )
            out.append(f"m_{name}_d = False")
        elif name in body.written:
            out.append(f"ring_note(S_{name}_len, S_{name}_fresh, s, note_{name})")
    if body.forgets:
        out.append("gone = False")
    if shape.timed:
        out += ["now = S__wake[s]", "wake = FOREVER"] if body.timed else ["wake = S__wake[s]"]
        if not body.timed:
            out += ["if wake == 0:", "    wake = FOREVER"]
    for name, sort in body.row.items():
        if name in body.reads:
            code = row_code(body, name)
            out.append(f"{code}_null = len(V_{code}) > 0 and V_{code}[r] == 0")
            if sort is Sort.TEXT:
                out += [f"{code}_o = F_{code}[r]", f"{code}_n = F_{code}[r + 1] - {code}_o"]
            else:
                out.append(f"{code} = R_{code}[r]" + (" != 0" if sort is Sort.BOOL else ""))
    for at, sort in enumerate(body.output.values()):
        if sort is Sort.TEXT:
            out.append(f"tail{at} = O_{at}[out]")
    for name, sort in body.locals.items():
        if sort is Sort.TEXT:
            out.append(f"u_{name}_b, u_{name}_o, u_{name}_n = literals, 0, 0")
        else:
            out.append(f"u_{name} = {ZEROS.get(sort, '0')}")
    return out


def _epilogue(shape: Shape, body: Body) -> list[str]:
    """The code that writes a row's changes. After the first write nothing can fail."""
    texts = [n for n, kind in body.state.items() if isinstance(kind, Text) and n in body.written]
    maps = [n for n, kind in body.state.items() if isinstance(kind, Map) and n in body.written]
    out = []
    if texts or maps:
        out.append("need = 0")
        for name in texts:
            out += [f"if s_{name}_d:", f"    need += room(S_{name}_len, s, s_{name}_n)"]
        for name in maps:
            out += [f"if m_{name}_d:", f"    need += room(S_{name}_len, s, 16 * m_{name}_n)"]
        out += ["if need > 0 and header[HEAP_USED] + need > header[HEAP_SIZE]:"]
        out += [f"    header[NEED] = {SHORT_OF_HEAP}", f"    return {SHORT_OF_TABLE}"]
    out.append(f"counts[{OUT}] = out")
    if body.forgets:
        out += ["if gone:", *("    " + line for line in _forget(shape))]
    for name in texts:  # copy all before writing any: a new text may be the old value of another field
        out += [f"if s_{name}_d:", f"    copy(s_{name}_b, s_{name}_o, s_{name}_n, arena, arena_{name})"]
    for name in texts:
        put = f"put_bytes(header, heap, S_{name}_off, S_{name}_len, s, arena, arena_{name}, s_{name}_n)"
        out += [f"if s_{name}_d:", f"    {put}"]
    for name in maps:
        put = f"put_bytes(header, heap, S_{name}_off, S_{name}_len, s, spare8, 8 * spare_{name}, 16 * m_{name}_n)"
        out += [f"if m_{name}_d:", f"    {put}"]
    for name, kind in body.state.items():
        if isinstance(kind, Scalar) and name in body.written:
            out.append(
                f"S_{name}[s] = " + (f"1 if s_{name} else 0" if kind.sort is Sort.BOOL else f"s_{name}")
            )
    if shape.timed:
        out += ["S__wake[s] = wake", f"counts[{SOONEST}] = min(counts[{SOONEST}], wake)"]
    if shape.ttl is not None:
        if not body.timed:
            assert shape.time is not None
            came = f"{row_code(body, shape.time)} + {shape.ttl}"
            out.append(f"S__expiry[s] = max(S__expiry[s], {came}) if S__expiry[s] != 0 else {came}")
        out.append(f"counts[{SOONEST}] = min(counts[{SOONEST}], S__expiry[s])")
    return [*out, "return 0"]


def _forget(shape: Shape) -> list[str]:
    """The code that forgets a key.

    A key that was forgotten before in the same batch has a new row that is in no file yet, so the row is
    emptied in place. Any other row is removed after the loop.
    """
    out = ["if reborn:"]
    for name, kind in shape.state.items():
        if isinstance(kind, Scalar):
            out.append(f"    S_{name}[s] = 0")
        elif isinstance(kind, Ring):
            out += [f"    S_{name}_{part}[s] = 0" for part in ("len", "at", "fresh")]
        else:
            out.append(f"    put_bytes(header, heap, S_{name}_off, S_{name}_len, s, arena, 0, 0)")
    hidden = ["wake"] * shape.timed + ["expiry"] * (shape.ttl is not None)
    out += [f"    S__{name}[s] = 0" for name in hidden]
    return [
        *out,
        f"dropped[counts[{DROPPED}]] = s",
        f"counts[{DROPPED}] += 1",
        "stamp[s] = -stamp[s]",
        "return 0",
    ]


def _loop(shape: Shape, body: Body, parameters: tuple[str, ...]) -> list[str]:
    given, name = ", ".join(parameters), _name(body)
    rings = [(n, k) for n, k in body.state.items() if isinstance(k, Ring) and n in body.written]
    out = ["@bare", f"def all_{name}s({given}, {', '.join(LOOP)}):", "    for i in range(lo, len(slots)):"]
    if body.forgets:
        out += [
            "        if stamp[slots[i]] < 0:",
            "            if not reborn:",
            f"                deferred[counts[{DEFERRED}]] = i",
            f"                counts[{DEFERRED}] += 1",
            "                continue",
            "            stamp[slots[i]] = -stamp[slots[i]]",
        ]
    out += [
        f"        code = one_{name}(slots[i], order[i], reborn, dropped, {given})",
        "        if code != 0:",
    ]
    for ring, kind in rings:
        parts = ", ".join(f"S_{ring}_{part}" for part in RING_PARTS if part != "cap")
        out.append(f"            ring_undo({heap_of(kind)}, {parts}, slots[i], note_{ring}, lost_{ring})")
    return [
        *out,
        f"            if code > 0 and skip and counts[{BAD}] < len(bad_row):",
        f"                bad_row[counts[{BAD}]] = order[i]",
        f"                bad_site[counts[{BAD}]] = code",
        f"                counts[{BAD}] += 1",
        "                continue",
        f"            counts[{CODE}] = {SHORT_OF_OUTPUT} if code > 0 and skip else code",
        "            return i",
        "    return len(slots)",
        "",
    ]
