"""Operators that keep rows, of which only some can matter: the others are left out before they are sent."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.operators.base import BoundOperator
from headgate.operators.combine import Combined
from headgate.operators.combine_groups import grouped
from headgate.operators.dedup import BoundDedup
from headgate.operators.topk import BoundTopK, in_order, largest
from headgate.state.kernels import sort_by_bin
from headgate.state.lanes import NO_INTS, to_lane

Ints = NDArray[np.int64]
MOST = 0.8
"""The share of rows from which on a top-k list takes them all."""


class CombinedRows(Combined):
    """An operator whose partial rows are some of the rows, unchanged and in order."""

    def __init__(self, original: BoundOperator) -> None:
        self.__dict__.update(original.__dict__)
        self.original = original

    def partial_schema(self, sent: pa.Schema) -> pa.Schema:
        return sent

    def partial(self, rows: pa.RecordBatch, hashes: Ints) -> tuple[pa.RecordBatch, Ints]:
        kept = self._kept(rows, *grouped(self.key, rows, hashes))
        return (rows, hashes) if len(kept) == len(hashes) else (rows.take(pa.array(kept)), hashes[kept])

    @abstractmethod
    def _kept(self, rows: pa.RecordBatch, group: Ints, first: Ints) -> Ints:
        """The rows to send, in order."""


class CombinedDedup(CombinedRows, BoundDedup):
    """A dedup: of the rows of a key in one range only the first can be new.

    If it is, the key does not expire before the rows after it: they arrived together, and none was late.
    """

    def _kept(self, rows: pa.RecordBatch, group: Ints, first: Ints) -> Ints:
        return first


class CombinedTopK(CombinedRows, BoundTopK):
    """A top-k list: a row that is not in the list of its own range is in no list.

    If nearly all rows are in such a list, the others are sent too: that is cheaper than finding them.
    """

    def _kept(self, rows: pa.RecordBatch, group: Ints, first: Ints) -> Ints:
        listed = np.minimum(np.bincount(group, minlength=1), self.config.k).sum()
        if listed > MOST * len(group):
            return np.arange(len(group))
        order, starts = sort_by_bin(group, len(first))
        values, none = in_order(to_lane(rows.column(self.config.by))), np.zeros(len(first) + 1, np.int64)
        kept, _ = largest(self.config.k, order, starts, values, NO_INTS, none, NO_INTS)
        return np.sort(kept)
