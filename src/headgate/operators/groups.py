# mypy: allow-untyped-defs, allow-untyped-calls
"""Rows grouped by key, and packed rows: for operators that treat all rows of a key together or store rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.compiled import compiled
from headgate.operators.aggregate_kernels import put_chosen_bytes
from headgate.operators.combine_groups import by_hash, equal_words
from headgate.state.kernels import sort_by_bin
from headgate.state.keys import KeyColumn
from headgate.state.lanes import NO_INTS
from headgate.state.layout import StateLayout
from headgate.state.table import BinTable


def by_key(
    keys: KeyColumn, order: NDArray[np.int64], *, fixed_key: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(rows, starts): the rows of the i-th key are `rows[starts[i]:starts[i + 1]]`, in the given order."""
    groups, count = _groups(keys, order, fixed_key=fixed_key)
    sorted_, starts = sort_by_bin(groups, count)
    return order[sorted_], starts


def _groups(keys: KeyColumn, order: NDArray[np.int64], *, fixed_key: bool) -> tuple[NDArray[np.int64], int]:
    """The group of each row in `order`, and how many groups there are. Rows with equal hashes are grouped
    first, which is fast; a table of keys is needed only where different keys share a hash.
    """
    if fixed_key:
        group, first = by_hash(keys.hashes[order], NO_INTS)
        valid = keys.valid[order] if len(keys.valid) else keys.valid
        if equal_words(keys.data[order].view(np.int64), 1, valid, group, first):
            return group, len(first)
    names = BinTable.create(StateLayout(fixed_key, ()), rows=len(order))
    return names.probe(keys, order), names.rows


def state_rows(
    table: BinTable, keys: KeyColumn, examples: NDArray[np.int64], *, by: str | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(rows, starts): the state rows of the i-th key are `rows[starts[i]:starts[i + 1]]`.

    `examples` has one input row of each key. `by` names a column to sort each key's rows by.
    """
    first = table.first(keys, examples)
    rows, starts = _listed(first, table.arrays["next"])
    if by is not None and len(rows) > 1:
        _sort_lists(rows, starts, table.arrays[by])
    return rows, starts


def store_packed(
    table: BinTable,
    column: str,
    slots: NDArray[np.int64],
    order: NDArray[np.int64],
    packed: tuple[NDArray[np.int64], NDArray[np.uint8]],
) -> None:
    """Store the packed rows `order` in a column of byte strings, one in each slot."""
    every = np.ones(len(order), np.uint8)

    def put(at: int) -> int:
        where = (table.header, table.heap, table.arrays[f"{column}.off"], table.arrays[f"{column}.len"])
        return int(put_chosen_bytes(slots, order, at, every, *packed, *where))

    table.run(put, len(order))


@compiled
def _sort_lists(rows, starts, values):
    """Sort each list of state rows by a value, in place and stably. Most lists are short."""
    for i in range(len(starts) - 1):
        if starts[i + 1] - starts[i] > 24:
            mine = rows[starts[i] : starts[i + 1]]
            rows[starts[i] : starts[i + 1]] = mine[np.argsort(values[mine], kind="mergesort")]
            continue
        for at in range(starts[i] + 1, starts[i + 1]):
            row = rows[at]
            value = values[row]
            to = at
            while to > starts[i] and values[rows[to - 1]] > value:
                rows[to] = rows[to - 1]
                to -= 1
            rows[to] = row


@compiled
def _listed(first, following):
    starts = np.zeros(len(first) + 1, np.int64)
    for i in range(len(first)):
        row = first[i]
        n = 0
        while row >= 0:
            n += 1
            row = following[row] - 1
        starts[i + 1] = starts[i] + n
    rows = np.empty(starts[-1], np.int64)
    for i in range(len(first)):
        row = first[i]
        at = starts[i]
        while row >= 0:
            rows[at] = row
            at += 1
            row = following[row] - 1
    return rows, starts
