"""Running a compiled kernel over the rows of a bin: room is made where it lacks, and forgotten keys are removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate import compiled
from headgate.operators import history
from headgate.operators.user_kernel import module, runtime
from headgate.operators.user_kernel.body import SHORT_OF_OUTPUT, SHORT_OF_TABLE, Site
from headgate.operators.user_kernel.containers import RING_PARTS
from headgate.operators.user_kernel.fields import Field, Ring, Sort
from headgate.operators.user_kernel.module import BAD, CODE, DEFERRED, DROPPED, SOONEST, Program
from headgate.operators.user_kernel.outputs import Outputs
from headgate.state import index, kernels
from headgate.state.lanes import NO_INTS, LaneColumn
from headgate.state.table import BinTable

Probe = Callable[[NDArray[np.int64]], NDArray[np.int64]]
Failed = Callable[[int, Site], None]
"""Called with the row, or state row, that failed."""


class CompiledLoop:
    """One kernel's compiled functions, with the memory that they work in."""

    def __init__(self, name: str, program: Program, state: Mapping[str, Field], row: Mapping[str, Sort]) -> None:
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
                self._fixed |= {f"note_{field}": np.zeros(3, np.int64), f"lost_{field}": np.zeros(kind.most, lost)}

    def reason(self, number: int) -> str:
        """Why rows with this site were put aside."""
        return self.program.sites[number - 1].reason

    def rows(
        self,
        table: BinTable,
        slots: NDArray[np.int64],
        order: NDArray[np.int64],
        lanes: Mapping[str, LaneColumn],
        outputs: Outputs,
        counts: NDArray[np.int64],
        probe: Probe,
        failed: Failed | None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Apply rows; gives those that failed and their sites, unless `failed` is called for them.

        `probe` finds the state rows of keys that come back after they were forgotten.
        """
        given: dict[str, NDArray[Any]] = {}
        for code, name in self._codes.items():
            if name in lanes:
                lane = lanes[name]
                given |= {f"R_{code}": lane.data, f"V_{code}": lane.valid, f"F_{code}": lane.offsets}
        bad = NO_INTS if failed is not None else np.empty(len(slots), np.int64)
        sites = NO_INTS if failed is not None else np.empty(len(slots), np.int64)
        run = self._module.all_rows
        counts[BAD] = 0
        rest = self._run(
            run, self.program.row, table, slots, order, given, outputs, counts, bad, sites, failed, False
        )
        if len(rest):
            again = order[rest]
            self._run(
                run, self.program.row, table, probe(again), again, given, outputs, counts, bad, sites, failed, True
            )
        return bad[: counts[BAD]], sites[: counts[BAD]]

    def timers(
        self, table: BinTable, slots: NDArray[np.int64], outputs: Outputs, counts: NDArray[np.int64], failed: Failed
    ) -> None:
        """Meet the timers of some state rows."""
        assert self.program.timer is not None
        run = self._module.all_timers
        none = (NO_INTS, NO_INTS)
        self._run(run, self.program.timer, table, slots, slots, {}, outputs, counts, *none, failed, False)

    def _run(
        self,
        run: Callable[..., int],
        parameters: tuple[str, ...],
        table: BinTable,
        slots: NDArray[np.int64],
        order: NDArray[np.int64],
        given: Mapping[str, NDArray[Any]],
        outputs: Outputs,
        counts: NDArray[np.int64],
        bad: NDArray[np.int64],
        sites: NDArray[np.int64],
        failed: Failed | None,
        reborn: bool,
    ) -> NDArray[np.int64]:
        """Run to the end, making room on the way; positions of rows whose key was forgotten before they came."""
        size = len(slots) if self.program.forgets else 0
        dropped, deferred = np.empty(size, np.int64), np.empty(size, np.int64)
        counts[DROPPED] = counts[DEFERRED] = 0
        at = 0
        while True:
            known = {**self._fixed, **given, **outputs.arrays(), **self._table_arrays(table), "counts": counts}
            arrays = [known[name] for name in parameters]
            at = run(*arrays, slots, order, at, failed is None, reborn, bad, sites, dropped, deferred)
            if at == len(slots):
                break
            code = int(counts[CODE])
            if code == SHORT_OF_OUTPUT:
                outputs.grow()
            elif code == SHORT_OF_TABLE:
                hidden = np.unique(dropped[: counts[DROPPED]])
                hidden = hidden[table.arrays["stamp"][hidden] < 0]
                _flip(table, hidden)  # a table that grows looks for every row by its key
                table.grow()
                _flip(table, hidden)
            else:
                assert failed is not None
                failed(int(order[at]), self.program.sites[code - 1])
        gone = np.unique(dropped[: counts[DROPPED]])
        gone = gone[table.arrays["stamp"][gone] < 0]
        if len(gone):
            _flip(table, gone)
            table.remove(gone)
        return deferred[: counts[DEFERRED]]

    def _table_arrays(self, table: BinTable) -> dict[str, NDArray[Any]]:
        a = table.arrays
        found = {
            "header": table.header,
            "heap": table.heap,
            "heap64": table.heap64,
            "words": table.heap.view(np.int64),
            "stamp": a["stamp"],
        }
        for column in table.layout.columns:
            name = column.name
            if isinstance(self._state.get(name), Ring):
                found |= {f"S_{name}_{part}": a[f"{name}.{part}"] for part in RING_PARTS}
            elif name in a:
                found[f"S_{name}"] = a[name]
            else:
                found |= {f"S_{name}_off": a[f"{name}.off"], f"S_{name}_len": a[f"{name}.len"]}
        return found


def _flip(table: BinTable, rows: NDArray[np.int64]) -> None:
    """Hide rows from a table, or show them again: a row with a negative stamp is not there."""
    stamp = table.arrays["stamp"]
    stamp[rows] = -stamp[rows]


def fresh_counts() -> NDArray[np.int64]:
    """Counts of a chunk before its first row."""
    counts = np.zeros(module.CODE + 1, np.int64)
    counts[SOONEST] = index.FOREVER
    return counts

