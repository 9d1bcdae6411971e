"""How the work of a batch is divided: pieces of files, in order, into ranges of about equal work; and batches of a good size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from headgate.sources.formats import Piece

FILE_ROWS = 200
"""Opening a file takes about as long as reading so many rows."""
LEAST_WORK = 10_000
"""A range has at least about so many rows, so that a task is worth its start."""
FEW, MANY = 1 << 16, 1 << 20
"""Rows of a batch: smaller ones are joined until there are so many, larger ones are cut."""


def shares(sizes: Sequence[int], parts: int) -> list[int]:
    """Which part each size belongs to, so that parts follow one another and have about equal sums.

    >>> shares([5, 5, 1, 1, 8], 2)
    [0, 0, 1, 1, 1]
    """
    total = sum(sizes)
    found, before = [], 0
    for size in sizes:
        found.append(min(parts - 1, (2 * before + size) * parts // (2 * total)) if total else 0)
        before += size
    return found


def cut(taken: Sequence[tuple[Piece, int]], tasks: int) -> list[tuple[list[Piece], int]]:
    """Pieces as ranges, each with its number of rows. Pieces of a file that touch become one."""
    work = [rows + (FILE_ROWS if piece.start == 0 else 0) for piece, rows in taken]
    parts = max(1, min(tasks, sum(work) // LEAST_WORK))
    ranges: dict[int, tuple[list[Piece], int]] = {}
    for (piece, rows), part in zip(taken, shares(work, parts), strict=True):
        pieces, before = ranges.get(part, ([], 0))
        if pieces and pieces[-1].path == piece.path and pieces[-1].end == piece.start:
            pieces[-1] = pieces[-1]._replace(end=piece.end)
        else:
            pieces.append(piece)
        ranges[part] = (pieces, before + rows)
    return [ranges[part] for part in sorted(ranges)]


def batches(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are neither tiny nor huge."""
    held: list[pa.Table] = []
    rows = 0
    for table in tables:
        held.append(table)
        rows += table.num_rows
        if rows >= FEW:
            yield from _joined(held)
            held, rows = [], 0
    yield from _joined(held)


def _joined(tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    if tables:
        joined = pa.concat_tables(tables) if len(tables) > 1 else tables[0]
        whole = joined.combine_chunks()
        yield from (batch for batch in whole.to_batches(max_chunksize=MANY) if batch.num_rows)
