# mypy: allow-untyped-defs, allow-untyped-calls
"""Compiled code that parses messages of Protobuf and writes columns.

A message type is tables: its fields by number, and the columns that an instance of it fills. Fields may
come in any order and more than once, so an instance first gets its zeros and nulls, and each field that
comes overwrites its column at the instance's place. Items of lists and maps are appended.

What is rare is left to the library: a message that is wrong or has groups, two members of one `oneof`, a
key twice in a map. Such a message leaves nothing in the columns, and its status is 1.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import bare

NUMBER, WIRE, OP, COLUMN, NODE, REPEATED, ITEM, GROUP = range(8)
"""Columns of the table of fields. COLUMN of a repeated field has its length, and ITEM its items."""
FIRST, AFTER, LEVEL, KEY, KEY_BYTES = range(5)
"""Columns of the table of message types: their fields, the columns of an instance, and the key of a map."""
SAME, INT32, UINT32, SINT32, SINT64, BOOL, BYTES, MESSAGE = range(8)
VARINT, WIDE, SPAN, NARROW = 0, 1, 2, 5
"""Wire types."""
_MOST_KEYS = 256
"""A map with more is left to the library, because its keys are compared with one another."""


@bare
def _varint(data, at, end):
    found, shift = np.uint64(0), np.uint64(0)
    while at < end:
        byte = np.uint64(data[at])
        at += 1
        found |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            if shift == np.uint64(63) and byte > np.uint64(1):
                return np.uint64(0), -1
            return found, at
        shift += np.uint64(7)
        if shift > np.uint64(63):
            return np.uint64(0), -1
    return np.uint64(0), -1


@bare
def _scalar(data, at, end, wire, op):
    """The number or the place of bytes at a place, and the place after it; -1 if it is wrong."""
    if wire == VARINT:
        found, after = _varint(data, at, end)
        if op == INT32:
            return np.int64(np.int32(found & np.uint64(0xFFFFFFFF))), after
        if op == UINT32:
            return np.int64(found & np.uint64(0xFFFFFFFF)), after
        if op in (SINT32, SINT64):
            found &= np.uint64(0xFFFFFFFF) if op == SINT32 else ~np.uint64(0)
            return np.int64(found >> np.uint64(1)) ^ -np.int64(found & np.uint64(1)), after
        if op == BOOL:
            return np.int64(found != np.uint64(0)), after
        return np.int64(found), after
    if wire == SPAN:
        size, after = _varint(data, at, end)
        if after < 0 or size > np.uint64(end - after):
            return np.int64(0), -1
        return (after << 32) | np.int64(size), after + np.int64(size)
    size = 8 if wire == WIDE else 4
    if wire not in (WIDE, NARROW) or end - at < size:
        return np.int64(0), -1
    word = np.uint64(0)
    for i in range(size):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    if op == INT32:
        return np.int64(np.int32(word)), at + size
    return np.int64(word), at + size


@bare
def _same(data, values, at, other, is_bytes):
    """Whether two keys are equal."""
    if not is_bytes:
        return values[at] == values[other]
    one, two = values[at], values[other]
    if one & 0xFFFFFFFF != two & 0xFFFFFFFF:
        return False
    for i in range(one & 0xFFFFFFFF):  # noqa: SIM110
        if data[(one >> 32) + i] != data[(two >> 32) + i]:
            return False
    return True


@bare
def run(
    data, begins, ends, values, valid, base, room, filled, before, status,
    fields, nodes, level_begins, level_columns, there, group_begins, group_columns, node, place, stop, count,
):  # fmt: skip
    """Parse the messages from `begins[i]` to `ends[i]`. Return the column that is full, or -1. The last four
    arrays are a stack.
    """
    for record in range(len(ends)):
        for i in range(len(filled)):
            before[i] = filled[i]
        at, depth, wrong, new = begins[record], 0, False, 0
        node[0], stop[0] = 0, ends[record]
        place[0] = -1
        while True:
            if place[depth] < 0:  # an instance begins
                level = nodes[node[depth], LEVEL]
                for i in range(level_begins[level], level_begins[level + 1]):
                    column = level_columns[i]
                    new = filled[column]
                    if new >= room[column]:
                        return column
                    values[base[column] + new] = 0
                    valid[base[column] + new] = there[column]
                    filled[column] = new + 1
                place[depth] = new
            if at == stop[depth]:
                kind = node[depth]
                if nodes[kind, KEY] >= 0:
                    key = base[nodes[kind, KEY]]
                    first = place[depth] - count[depth] + 1
                    if count[depth] > _MOST_KEYS:
                        wrong = True
                        break
                    for other in range(first, place[depth]):
                        if _same(data, values, key + place[depth], key + other, nodes[kind, KEY_BYTES]):
                            wrong = True
                            break
                    if wrong:
                        break
                depth -= 1
                if depth < 0:
                    break
                continue
            tag, at = _varint(data, at, stop[depth])
            if at < 0 or tag > np.uint64(0xFFFFFFFF):
                wrong = True
                break
            number, wire = np.int64(tag >> np.uint64(3)), np.int64(tag & np.uint64(7))
            which = -1
            for i in range(nodes[node[depth], FIRST], nodes[node[depth], AFTER]):
                if fields[i, NUMBER] == number:
                    which = i
                    break
            many = which >= 0 and fields[which, REPEATED] == 1
            packs = many and wire == SPAN and fields[which, WIRE] != SPAN
            if which < 0 or (fields[which, WIRE] != wire and not packs):  # nobody wants it
                _, at = _scalar(data, at, stop[depth], wire, SAME)
                if at < 0 or number == 0:
                    wrong = True
                    break
                continue
            column, op = fields[which, COLUMN], fields[which, OP]
            here = base[column] + place[depth]
            found, after = _scalar(data, at, stop[depth], wire, SAME if packs else op)
            if after < 0:
                wrong = True
                break
            if packs or (many and op != MESSAGE):
                item = fields[which, ITEM]
                last = after
                if packs:
                    at = found >> 32
                while at < last:
                    found, at = _scalar(data, at, last, fields[which, WIRE], op)
                    if at < 0:
                        wrong = True
                        break
                    new = filled[item]
                    if new >= room[item]:
                        return item
                    values[base[item] + new] = found
                    valid[base[item] + new] = 1
                    filled[item] = new + 1
                    values[here] += 1
                if wrong:
                    break
                continue
            group = fields[which, GROUP]
            if group >= 0:
                for i in range(group_begins[group], group_begins[group + 1]):
                    other = group_columns[i]
                    if other != column and valid[base[other] + place[depth]]:
                        wrong = True
                if wrong:
                    break
            if op == MESSAGE:
                depth += 1
                node[depth], stop[depth] = fields[which, NODE], after
                place[depth] = -1 if many else place[depth - 1]
                at = found >> 32
                if many:
                    values[here] += 1
                    count[depth] = values[here]
                else:
                    values[here] = valid[here] = 1
                continue
            values[here], valid[here], at = found, 1, after
        if wrong:
            for i in range(len(filled)):
                filled[i] = before[i]
            status[record] = 1
    return -1
