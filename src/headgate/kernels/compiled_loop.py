"""Running a compiled kernel over the rows of a bin: memory grows as needed, and forgotten keys are removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate import compiled
from headgate.kernels import runtime
from headgate.kernels.body import SHORT_OF_OUTPUT, SHORT_OF_TABLE, Site
from headgate.kernels.containers import RING_PARTS
from headgate.kernels.fields import Field, Ring, Sort
from headgate.kernels.module import Program
from headgate.kernels.outputs import BAD, CODE, DEFERRED, DROPPED, Outputs
from headgate.operators import history
from headgate.state import index, kernels
from headgate.state.lanes import NO_INTS, LaneColumn
from headgate.state.table import BinTable

Probe = Callable[[NDArray[np.int64]], NDArray[np.int64]]
Bad = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The rows that failed, and the numbers of their sites."""


@dataclass(frozen=True)
class Work:
    """Rows of one bin, or state rows whose timers are due: row `order[i]` belongs to state row `slots[i]`."""

    table: BinTable
    slots: NDArray[np.int64]
    order: NDArray[np.int64]
    outputs: Outputs
    failed: Callable[[int, Site], None] | None
    """Called with a row that failed; it raises. None if failed rows are put aside."""


class CompiledLoop:
    """One kernel's compiled functions, with the arrays that they work in."""

    def __init__(
        self, name: str, program: Program, state: Mapping[str, Field], row: Mapping[str, Sort]
    ) -> None:
        self.program, self._state = program, state
        uses = (runtime, history, index, kernels)
        self._module = compiled.generated(name, program.text, *uses)
        self._codes = {f"c{at}": name for at, name in enumerate(row)}
        spare = np.zeros(program.spare, np.int64)
        self._fixed: dict[str, NDArray[Any]] = {
            "literals": np.frombuffer(bytearray(program.literals), np.uint8),
            "arena": np.zeros(program.arena, np.uint8),
            "spare": spare,
            "spare8": spare.view(np.uint8),
        }
        for field, kind in state.items():
            if isinstance(kind, Ring):
                lost = np.float64 if kind.sort is Sort.FLOAT else np.int64
                self._fixed |= {
                    f"note_{field}": np.zeros(3, np.int64),
                    f"lost_{field}": np.zeros(kind.most, lost),
                }

    @property
    def is_compiled(self) -> bool:
        """Whether any process on this machine has compiled all of it before."""
        names = ["all_rows"] + ["all_timers"] * (self.program.timer is not None)
        return all(compiled.is_compiled(self._module, name) for name in names)

    def reason(self, number: int) -> str:
        """Why rows with this site were put aside."""
        return self.program.sites[number - 1].reason

    def rows(self, work: Work, lanes: Mapping[str, LaneColumn], probe: Probe) -> Bad:
        """Apply rows; return those that failed and their sites, unless `work.failed` is called for them.

        `probe` finds the state rows of keys that have rows again after they were forgotten.
        """
        given: dict[str, NDArray[Any]] = {}
        for code, name in self._codes.items():
            if name in lanes:
                lane = lanes[name]
                given |= {f"R_{code}": lane.data, f"V_{code}": lane.valid, f"F_{code}": lane.offsets}
        size = 0 if work.failed is not None else len(work.slots)
        bad = np.empty(size, np.int64), np.empty(size, np.int64)
        counts = work.outputs.counts
        counts[BAD] = 0
        call = self._module.all_rows, self.program.row
        rest = self._run(*call, work, given, bad, reborn=False)
        if len(rest):
            again = work.order[rest]
            self._run(*call, replace(work, slots=probe(again), order=again), given, bad, reborn=True)
        return bad[0][: counts[BAD]], bad[1][: counts[BAD]]

    def timers(self, work: Work) -> None:
        """Fire the timers of the given state rows."""
        assert self.program.timer is not None
        self._run(self._module.all_timers, self.program.timer, work, {}, (NO_INTS, NO_INTS), reborn=False)

    def _run(
        self,
        run: Callable[..., int],
        parameters: tuple[str, ...],
        work: Work,
        given: Mapping[str, NDArray[Any]],
        bad: Bad,
        *,
        reborn: bool,
    ) -> NDArray[np.int64]:
        """Run to the end, growing the arrays as needed; return the positions of rows of forgotten keys."""
        table, slots, counts = work.table, work.slots, work.outputs.counts
        size = len(slots) if self.program.forgets else 0
        dropped, deferred = np.empty(size, np.int64), np.empty(size, np.int64)
        counts[DROPPED] = counts[DEFERRED] = 0
        at = 0
        while True:
            known = {**self._fixed, **given, **work.outputs.arrays(), **self._table_arrays(table)}
            arrays = [known[name] for name in parameters]
            skip = work.failed is None
            at = run(*arrays, slots, work.order, at, skip, reborn, *bad, dropped, deferred)
            gone = _hidden(table, dropped[: counts[DROPPED]])
            if at == len(slots):
                break
            code = int(counts[CODE])
            if code == SHORT_OF_OUTPUT:
                work.outputs.grow()
            elif code == SHORT_OF_TABLE:
                _flip(table, gone)  # growing rebuilds the index, so hidden rows must be shown for it
                table.grow()
                _flip(table, gone)
            else:
                assert work.failed is not None
                work.failed(int(work.order[at]), self.program.sites[code - 1])
        if len(gone):
            _flip(table, gone)
            table.remove(gone)
        return deferred[: counts[DEFERRED]]

    def _table_arrays(self, table: BinTable) -> dict[str, NDArray[Any]]:
        a = table.arrays
        arrays: dict[str, NDArray[Any]] = {
            "header": table.header,
            "heap": table.heap,
            "heap64": table.heap64,
            "words": table.heap.view(np.int64),
            "stamp": a["stamp"],
        }
        for column in table.layout.columns:
            name = column.name
            if isinstance(self._state.get(name), Ring):
                arrays |= {f"S_{name}_{part}": a[f"{name}.{part}"] for part in RING_PARTS}
            elif name in a:
                arrays[f"S_{name}"] = a[name]
            else:
                arrays |= {f"S_{name}_off": a[f"{name}.off"], f"S_{name}_len": a[f"{name}.len"]}
        return arrays


def _flip(table: BinTable, rows: NDArray[np.int64]) -> None:
    """Hide rows from a table, or show them again: a row with a negative stamp counts as removed."""
    stamp = table.arrays["stamp"]
    stamp[rows] = -stamp[rows]


def _hidden(table: BinTable, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows that are hidden, without duplicates."""
    rows = np.unique(rows)
    return rows[table.arrays["stamp"][rows] < 0]
