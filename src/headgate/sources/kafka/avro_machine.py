# mypy: allow-untyped-defs, allow-untyped-calls
"""Compiled code that runs a program over Avro records and writes columns.

A program is made for one writer's and one reader's schema (`avro_program.py`). Each instruction reads
the next value of a record, and writes it to a column or skips it. A column holds 64 bits for each value:
a number, the bits of a float, the place of bytes, the length of a list; and whether the value is there.
A record that is wrong leaves nothing in the columns, and a code says why.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.compiled import bare

LONG, INT, LONG_AS_FLOAT, LONG_AS_DOUBLE, BYTES, ENUM, UNION, BLOCK, SKIP_LONG = range(9)
BOOL, FLOAT, DOUBLE, FLOAT_AS_DOUBLE, FIXED, NULL, CONST, CONST_BYTES = range(9, 17)
JUMP, ENTER, NEXT, CALL, RETURN, BAD, END = range(17, 24)
_VARINTS = BOOL
"""Instructions before this one begin with a number of variable length."""
DEPTH = 64
"""How deep lists and records within records may be nested."""

MOST_EMPTY = 1 << 20
"""How many items without a byte a list may have, such as nulls."""

ENDS, TRAILS, MALFORMED, BRANCH, SYMBOL, RANGE, COUNT, DEEP = range(1, 9)
TOLD = {
    ENDS: "ends within a field",
    TRAILS: "has bytes after its last field",
    MALFORMED: "has a number or a length that is not one of Avro",
    BRANCH: "names a branch of a union that its schema does not have",
    SYMBOL: "names a symbol of an enum that its schema does not have",
    RANGE: "has an int of more than 32 bits",
    COUNT: "has a list with more items than it has bytes for",
    DEEP: f"is nested deeper than {DEPTH} levels",
}
FIRST_OWN = 100
"""Codes from here on are those of a program."""


@bare
def _varint(data, at, end):
    """The number at a place, and the place after it; -1 if the data ends, -2 if it is too long."""
    found, shift = np.uint64(0), np.uint64(0)
    while at < end:
        byte = np.uint64(data[at])
        at += 1
        found |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            if shift == np.uint64(63) and byte > np.uint64(1):
                return 0, -2
            return np.int64(found >> np.uint64(1)) ^ -np.int64(found & np.uint64(1)), at
        shift += np.uint64(7)
        if shift > np.uint64(63):
            return 0, -2
    return 0, -1


@bare
def _word(data, at, size):
    found = np.uint64(0)
    for i in range(size):
        found |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return np.int64(found)


@bare
def run(
    data, begins, ends, values, valid, base, room, filled, before, status,
    program, aux, consts_at, left, total, back, single, single_bits, double, double_bits,
):  # fmt: skip
    """Decode the records from `begins[i]` to `ends[i]`. Return the column that is full, or -1. The arrays after
    `consts_at` are those of `scratch`.
    """
    for record in range(len(ends)):
        at, end = begins[record], ends[record]
        for i in range(len(filled)):
            before[i] = filled[i]
        pc, depth, code = 0, -1, 0
        while True:
            op, column = program[pc, 0], program[pc, 1]
            number, is_there, puts = np.int64(0), np.uint8(1), column >= 0
            if op < _VARINTS:
                number, after = _varint(data, at, end)
                if after < 0:
                    code = ENDS if after == -1 else MALFORMED
                    break
                at = after
            if op == LONG:
                pass
            elif op == BYTES:
                if number < 0 or number > end - at:
                    code = MALFORMED if number < 0 else ENDS
                    break
                at += number
                number = ((at - number) << 32) | number
            elif op == DOUBLE:
                if end - at < 8:
                    code = ENDS
                    break
                number = _word(data, at, 8)
                at += 8
            elif op == UNION:
                if number < 0 or number >= program[pc, 3]:
                    code = BRANCH
                    break
                pc = aux[program[pc, 2] + number]
                continue
            elif op == NULL:
                is_there = np.uint8(0)
            elif op == BOOL:
                if at >= end or data[at] > 1:
                    code = ENDS if at >= end else MALFORMED
                    break
                number = np.int64(data[at])
                at += 1
            elif op == INT:
                if number < -(1 << 31) or number >= 1 << 31:
                    code = RANGE
                    break
            elif op == SKIP_LONG:
                puts = False
            elif op == JUMP:
                pc = program[pc, 2]
                continue
            elif op == ENUM:
                if number < 0 or number >= program[pc, 3]:
                    code = SYMBOL
                    break
                number = aux[program[pc, 2] + number]
                if number >= FIRST_OWN << 32:
                    code = number >> 32
                    break
            elif op in (FLOAT, FLOAT_AS_DOUBLE):
                if end - at < 4:
                    code = ENDS
                    break
                number = _word(data, at, 4)
                at += 4
                if op == FLOAT_AS_DOUBLE:
                    single_bits[0] = number
                    double[0] = single[0]
                    number = double_bits[0]
            elif op == FIXED:
                size = program[pc, 2]
                if end - at < size:
                    code = ENDS
                    break
                number = (at << 32) | size
                at += size
            elif op == LONG_AS_DOUBLE:
                double[0] = number
                number = double_bits[0]
            elif op == LONG_AS_FLOAT:
                single[0] = np.float32(np.float64(number))
                number = np.int64(single_bits[0])
            elif op == CONST:
                number = aux[program[pc, 2]]
            elif op == CONST_BYTES:
                number = aux[program[pc, 2]] + (consts_at << 32)
            elif op in (ENTER, CALL):
                depth += 1
                if depth >= DEPTH:
                    code = DEEP
                    break
                left[depth] = total[depth] = 0
                back[depth] = pc + 1
                pc = pc + 1 if op == ENTER else program[pc, 2]
                continue
            elif op == BLOCK:
                if number < 0:
                    number = -number
                    _, after = _varint(data, at, end)
                    if after < 0:
                        code = ENDS if after == -1 else MALFORMED
                        break
                    at = after
                if number:
                    most = end - at if program[pc, 3] == 0 else MOST_EMPTY
                    if number < 0 or number > most:
                        code = COUNT
                        break
                    left[depth] = number
                    total[depth] += number
                    pc += 1
                    continue
                number = total[depth]
                depth -= 1
            elif op == NEXT:
                left[depth] -= 1
                pc = program[pc, 2] + 1 if left[depth] > 0 else program[pc, 2]
                continue
            elif op == RETURN:
                pc = back[depth]
                depth -= 1
                continue
            elif op == BAD:
                code = program[pc, 2]
                break
            else:
                code = 0 if at == end else TRAILS
                break
            if puts:
                place = filled[column]
                if place >= room[column]:
                    return column
                values[base[column] + place] = number
                valid[base[column] + place] = is_there
                filled[column] = place + 1
            pc = program[pc, 2] if op == BLOCK else pc + 1
        status[record] = code
        if code:
            for i in range(len(filled)):
                filled[i] = before[i]
    return -1


def scratch() -> tuple[NDArray[Any], ...]:
    """Arrays that `run` works with: a stack, and floats whose bits can be seen."""
    single, double = np.zeros(1, np.float32), np.zeros(1, np.float64)
    stack = (np.zeros(DEPTH, np.int64) for _ in range(3))
    return (*stack, single, single.view(np.uint32), double, double.view(np.int64))
