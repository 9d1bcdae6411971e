"""A function from a row to an iterator, suspended after a number of rows and resumed in a later wave (FAUCET-10).

A wave draws from the iterators of its rows, one after the other, until its budget is spent, and says how
far it came. The process keeps the suspended iterator. If the next wave runs in another process, the
iterator is made again and advanced to the same place, so the function must give the same rows every time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

RowsOf = Callable[[dict[str, Any]], Iterable[tuple[Any, ...]]]
"""A function from a row to an iterator of tuples."""

_ROWS_AT_ONCE = 4096
_KEPT = 64
_suspended: OrderedDict[tuple[str, int, int, int], Iterator[tuple[Any, ...]]] = OrderedDict()
"""The suspended iterators of this process, by source, file, row and number of outputs made."""


class Draw:
    """Draws at most `budget` rows from the rows of one range, of whose first row `made` outputs exist.

    `source` is a name that no other input has. When the drawing has ended, `place` is the row that comes
    next, and the number of its outputs that exist.

    >>> draw = Draw(lambda row: ((row["k"], n) for n in range(3)), "doc", budget=4)
    >>> [rows for rows in draw([(0, 0, {"k": 7}), (0, 1, {"k": 8})])], draw.place
    ([[(7, 0), (7, 1), (7, 2)], [(8, 0)]], (1, 1))
    """

    def __init__(self, function: RowsOf, source: str, *, budget: int, made: int = 0) -> None:
        self._function, self._source, self._left, self._made = function, source, budget, made
        self.place: tuple[int, int] | None = None

    def __call__(self, rows: Iterable[tuple[int, int, dict[str, Any]]]) -> Iterator[list[tuple[Any, ...]]]:
        """Lists of tuples; `rows` are file, position and columns, in order."""
        made = self._made
        for file, at, row in rows:
            source = self._iterator(file, at, made, row)
            ended = False
            while self._left and not ended:
                wanted = min(self._left, _ROWS_AT_ONCE)
                drawn = list(islice(source, wanted))
                self._left -= len(drawn)
                made += len(drawn)
                ended = len(drawn) < wanted
                if drawn:
                    yield drawn
            if not ended:
                self.place = (at, made)
                self._suspend(file, at, made, source)
                return
            self.place, made = (at + 1, 0), 0

    def _suspend(self, file: int, at: int, made: int, source: Iterator[tuple[Any, ...]]) -> None:
        _suspended[self._source, file, at, made] = source
        while len(_suspended) > _KEPT:
            _suspended.popitem(last=False)

    def _iterator(self, file: int, at: int, made: int, row: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
        kept = _suspended.pop((self._source, file, at, made), None)
        if kept is not None:
            return kept
        source = iter(self._function(row))
        for _ in islice(source, made):
            pass
        return source


def batch_of(drawn: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Tuples as columns.

    >>> batch_of([(1, "a"), (2, "b")], pa.schema({"n": pa.int64(), "s": pa.string()})).num_rows
    2
    """
    columns = zip(*drawn, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
