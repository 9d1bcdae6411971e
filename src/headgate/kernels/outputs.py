"""The rows that a kernel emits, in arrays that compiled code fills; they grow when they are full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.kernels.fields import ARROW, DTYPES, Sort
from headgate.state.index import FOREVER
from headgate.state.lanes import Lane, LaneColumn, bitmap, from_lane

LEAST = 64
OUT, BAD, SOONEST, DROPPED, DEFERRED, CODE = range(6)
"""Positions in `counts`: emitted rows, failed rows, the earliest time at which something is due, forgotten
keys, rows that came after their key was forgotten, and the code that stopped the loop."""


class Outputs:
    """Columns of emitted rows. `rows[i]` is the input row, or state row, for which row i was emitted."""

    def __init__(self, output: Mapping[str, Sort], rows: int) -> None:
        self.output = output
        self.counts = np.zeros(CODE + 1, np.int64)
        self.counts[SOONEST] = FOREVER
        self.rows = np.empty(max(rows, LEAST), np.int64)
        self._values: list[NDArray[Any]] = []
        self._valid = [np.empty(len(self.rows), np.uint8) for _ in output]
        self._bytes: dict[int, NDArray[np.uint8]] = {}
        for at, sort in enumerate(output.values()):
            if sort is Sort.TEXT:
                self._values.append(np.zeros(len(self.rows) + 1, np.int64))
                self._bytes[at] = np.empty(8 * len(self.rows), np.uint8)
            else:
                self._values.append(np.empty(len(self.rows), DTYPES[sort]))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by their names in generated code."""
        arrays: dict[str, NDArray[Any]] = {"O_row": self.rows, "counts": self.counts}
        for at, (values, valid) in enumerate(zip(self._values, self._valid, strict=True)):
            arrays |= {f"O_{at}": values, f"N_{at}": valid}
        return arrays | {f"B_{at}": data for at, data in self._bytes.items()}

    def grow(self) -> None:
        """Double the capacity."""
        self.rows = _doubled(self.rows)
        self._valid = [_doubled(valid) for valid in self._valid]
        self._bytes = {at: _doubled(data) for at, data in self._bytes.items()}
        texts = self._bytes.keys()
        self._values = [
            _doubled(values, spare=1 if at in texts else 0) for at, values in enumerate(self._values)
        ]

    def __len__(self) -> int:
        return int(self.counts[OUT])

    @property
    def soonest(self) -> int:
        """The earliest time at which something is due."""
        return int(self.counts[SOONEST])

    @soonest.setter
    def soonest(self, time: int) -> None:
        self.counts[SOONEST] = time

    def append(self, row: int, values: list[Any]) -> None:
        """Add one row; None is a null."""
        count = len(self)
        texts = [v for at, v in enumerate(values) if at in self._bytes and v is not None]
        while count == len(self.rows) or any(
            self._values[at][count] + sum(map(len, texts)) > len(data) for at, data in self._bytes.items()
        ):
            self.grow()
        self.rows[count] = row
        for at, value in enumerate(values):
            self._valid[at][count] = value is not None
            if at in self._bytes:
                start = int(self._values[at][count])
                end = self._values[at][count + 1] = start + len(value or b"")
                self._bytes[at][start:end] = np.frombuffer(value or b"", np.uint8)
            else:
                self._values[at][count] = 0 if value is None else value
        self.counts[OUT] += 1

    def columns(self) -> list[pa.Array]:
        """The rows as Arrow columns."""
        out, count = [], len(self)
        for at, sort in enumerate(self.output.values()):
            valid = self._valid[at][:count]
            if sort is Sort.TEXT:
                ends = self._values[at][: count + 1]
                data = self._bytes[at][: int(ends[-1]) if count else 0]
                out.append(from_lane(LaneColumn(Lane.BYTES, data, valid, ends), ARROW[sort]))
            elif sort is Sort.BOOL:
                truths = pa.array(self._values[at][:count].view(np.bool_))
                mask = bitmap(valid)
                out.append(pa.Array.from_buffers(pa.bool_(), count, [mask, truths.buffers()[1]]))
            else:
                lane = Lane.F64 if sort is Sort.FLOAT else Lane.I64
                out.append(from_lane(LaneColumn(lane, self._values[at][:count], valid), ARROW[sort]))
        return out


def _doubled(array: NDArray[Any], spare: int = 0) -> NDArray[Any]:
    wider = np.zeros(2 * (len(array) - spare) + spare, array.dtype)
    wider[: len(array)] = array
    return wider
