"""The gates of a stage: they cut a batch of the source into waves, each of which is committed like a batch.

The rows of the batch are first written to the checkpoint, before they expand, and then go through the
gates wave by wave. The commit of each wave names the rest of the batch, so after a crash the stage
continues with the next wave, from the same files. Gates nest: what a wave of the outer gate expands to
is written as the input of the next gate, and its waves are committed before the outer one is done. The
rest then names what is left of both.

The stage must see rows in order, so it commits one wave at a time; the other waves in flight are
expanding meanwhile.

Laws: each gate has at most `in_flight` waves in flight, of at most `batch` rows each. All rows of the
batch come out, each once, and in order where the operator asks for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import count, groupby
from typing import Generic, Protocol, TypeVar

from headgate.errors import CheckpointMismatch
from headgate.flow.fan_out import FanOut
from headgate.flow.gate import AUTO, Gate
from headgate.flow.gated_ranges import GatedRanges, RangeWave
from headgate.flow.progress import Stamp
from headgate.flow.row_ranges import RowRange, whole_files
from headgate.flow.wave_size import WaveSize
from headgate.stage.engine import Rows
from headgate.stage.settings import Expansion
from headgate.storage.store import Store

T = TypeVar("T")
Made = TypeVar("Made", covariant=True)
LEAST_ROWS, MOST_ROWS = 50_000, 4_000_000
REMEMBERED = 6
"""Waves from which the speed is known."""


@dataclass(frozen=True)
class WaveRows(Generic[Rows]):
    """The rows for one commit, and the rest of the source's batch after it."""

    rows: Rows
    rest: tuple[RowRange, ...]
    rows_at_gate: int
    """The number of rows of the source's whole batch, before they expand."""


class Staged(Protocol[Made]):
    """Rows in files, before a gate."""

    @property
    def lengths(self) -> Sequence[int]:
        """The number of positions of each file."""
        ...

    @property
    def rows(self) -> int:
        """The number of rows."""
        ...

    @property
    def depth(self) -> int:
        """The gate that they wait at: 0 is the outermost."""
        ...

    def check(self, ranges: Sequence[RowRange]) -> None:
        """Refuse files that have changed since they were written."""
        ...

    def take(
        self, wave: RangeWave, gate: Expansion, name: str, *, in_order: bool
    ) -> tuple[Made, Callable[[], list[RowRange]]]:
        """The rows of a wave, drawn from iterators if the gate says so, and a function that tells what is left
        of its ranges once they are computed. `name` is that of these staged rows.
        """
        ...


class WaveEngine(Protocol[Rows]):
    """What waves need from the engine that holds their rows."""

    @property
    def spread(self) -> int:
        """From how many files a wave should take rows, unless order matters."""
        ...

    def now(self) -> float:
        """Seconds since an arbitrary moment, on the driver."""
        ...

    def none(self, rows: Rows) -> Rows:
        """No rows, with the same columns."""
        ...

    def whole(self, rows: Rows, gate: Expansion) -> Rows:
        """The rows as the step of a gate gets them if all of them are let through."""
        ...

    def stage(
        self, rows: Rows, store: Store, depth: int, fan_out: FanOut | None, *, plain: bool
    ) -> Staged[Rows]:
        """Compute rows and write them; `plain` says that the stage takes them as they are, without a step."""
        ...

    def staged(self, rows: Rows, store: Store) -> Staged[Rows]:
        """What `stage` wrote, perhaps in another process; `rows` are of the same session."""
        ...

    def keep(self, rows: Rows, store: Store, *, in_order: bool) -> Rows:
        """Compute rows and write them, for the stage to read."""
        ...

    def ahead(self, threads: int) -> AbstractContextManager[Ahead]:
        """A way to compute while the stage does something else."""
        ...


class Ahead(Protocol):
    """Starts work, and returns a function that waits for its result."""

    def __call__(self, work: Callable[[], T]) -> Callable[[], T]:
        """Start the work."""
        ...


class Waves(Generic[Rows]):
    """Cuts batches of the source into waves, and remembers which wave sizes worked well."""

    def __init__(self, gates: Sequence[Expansion], store: Store, engine: WaveEngine[Rows]) -> None:
        self.gates, self.store, self.engine = tuple(gates), store, engine
        self.sizes = [WaveSize(LEAST_ROWS, MOST_ROWS) for _ in gates]
        self.numbers = count()
        self._seen: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)
        self._warm = False

    @property
    def rows_per_second(self) -> float | None:
        """The speed of the last waves in rows of the source; None before the second wave, because the first
        one includes warming up.
        """
        rows, seconds = sum(r for r, _ in self._seen), sum(s for _, s in self._seen)
        return rows / seconds if seconds else None

    def whole(self, rows: Rows) -> Rows:
        """What rows expand to, without a gate."""
        for gate in self.gates:
            rows = self.engine.whole(rows, gate)
            rows = rows if gate.step is None else gate.step(rows)
        return rows

    def of(
        self, rows: Rows, folder: str, rest: Sequence[RowRange] | None, *, ordered: bool, run: str
    ) -> Iterator[WaveRows[Rows]]:
        """The waves of a batch, whose rows are written to a folder; with `rest`, the waves that are left of it
        there. `run` names the driver. The caller commits each wave before it asks for the next one.
        """
        threads = sum(gate.gate.in_flight for gate in self.gates if gate.gate is not None)
        with self.engine.ahead(threads) as ahead:
            yield from _BatchWaves(self, self.store.child(folder), ahead, ordered, run).of(rows, rest)

    def forget(self, folder: str, is_older: Callable[[str], bool]) -> None:
        """The source's whole batch is committed: remove its rows from the store, and those that older
        drivers left behind.
        """
        self.store.remove(folder, *(other for other in self.store.names("") if is_older(other)))

    def sized(self, depth: int) -> Gate:
        """A gate with a size, which is found if it is not fixed."""
        gate = self.gates[depth].gate
        assert gate is not None
        return gate if gate.batch != AUTO else replace(gate, batch=self.sizes[depth].batch)

    def took(self, depth: int, wave: RangeWave, rows: float, seconds: float) -> None:
        """A wave of a gate has passed, with so many rows of its input."""
        self.sizes[depth] = self.sizes[depth].after(wave.rows, seconds)
        if depth == 0 and self._warm:
            self._seen.append((rows, seconds))
        self._warm = self._warm or depth == 0


@dataclass(frozen=True)
class _Passed(Generic[Rows]):
    """What a wave has become: rows for the stage, or the input of the next gate."""

    wave: RangeWave
    rows: Rows | None
    staged: Staged[Rows] | None
    name: str
    """Its folder, if it has one."""
    left: list[RowRange]


class _BatchWaves(Generic[Rows]):
    """The waves of one batch of the source."""

    def __init__(self, waves: Waves[Rows], store: Store, ahead: Ahead, ordered: bool, run: str) -> None:
        self._waves, self._engine, self._store = waves, waves.engine, store
        self._ahead, self._ordered, self._run = ahead, ordered, run

    def of(self, rows: Rows, rest: Sequence[RowRange] | None) -> Iterator[WaveRows[Rows]]:
        if rest is None:
            first = self._staged(rows, 0, "")
            waiting = [(first, whole_files(first.lengths))]
        else:
            first = self._engine.staged(rows, self._store)
            waiting = [
                (self._reopened(rows, of), list(ranges)) for of, ranges in groupby(rest, key=lambda r: r.of)
            ]
        rest = tuple(piece for _, ranges in waiting for piece in ranges)
        while waiting:
            staged, ranges = waiting.pop(0)
            later = [piece for _, others in waiting for piece in others]
            for passed, left in self._through(staged, ranges, (0,) * staged.depth):
                rest = (*left, *later)
                yield WaveRows(passed, rest, first.rows)
        if rest:  # it has become nothing, and that has to be committed too
            yield WaveRows(self._waves.whole(self._engine.none(rows)), (), first.rows)

    def _reopened(self, rows: Rows, of: str) -> Staged[Rows]:
        staged = self._engine.staged(rows, self._store.child(of) if of else self._store)
        if staged.depth >= len(self._waves.gates):
            raise CheckpointMismatch(
                f"rows wait in {self._store.path(of)} at gate {staged.depth + 1}, but the stage has {len(self._waves.gates)}: "
                "start it with the expansions of before until the batch is done"
            )
        return staged

    def _staged(self, rows: Rows, depth: int, name: str) -> Staged[Rows]:
        gate = self._waves.gates[depth]
        store = self._store.child(name) if name else self._store
        plain = len(self._waves.gates) == 1 and gate.step is None and gate.explode is None
        return self._engine.stage(rows, store, depth, FanOut.of(gate.fan_out), plain=plain)

    def _through(
        self, staged: Staged[Rows], ranges: list[RowRange], outer: Stamp
    ) -> Iterator[tuple[Rows, tuple[RowRange, ...]]]:
        """The rows that come out of all gates for some staged rows, and what is left of these then. `outer` is the
        stamp of the wave that they are of.
        """
        depth, waves, now = staged.depth, self._waves, self._engine.now
        name = ranges[0].of if ranges else ""
        staged.check(ranges)
        spread = 1 if self._ordered else self._engine.spread
        gated = GatedRanges(lambda: waves.sized(depth), ranges, spread=spread, outer=outer)
        gate, factor = waves.gates[depth], staged.rows / max(1, sum(staged.lengths))
        running: deque[Callable[[], _Passed[Rows]]] = deque()
        rests: deque[tuple[RowRange, ...]] = deque()
        while True:
            self._admit(gated, staged, name, running, rests)
            if not running:
                return
            started = now()
            passed = running.popleft()()
            rest = rests.popleft()
            if gate.explode is not None:  # nothing is drawn meanwhile, so this is what is left
                gated.give_back(passed.left)
                rest = gated.left
                self._admit(gated, staged, name, running, rests)
            if passed.staged is None:
                assert passed.rows is not None
                yield passed.rows, rest
            else:
                inner = whole_files(passed.staged.lengths, passed.name)
                for rows, left in self._through(passed.staged, inner, passed.wave.stamp):
                    yield rows, (*left, *rest)
            if passed.name:
                self._store.remove(passed.name)  # it is committed
            gated.done(passed.wave)
            done = passed.wave.rows - sum(map(len, passed.left))
            waves.took(depth, passed.wave, done * factor, now() - started)

    def _admit(
        self,
        gated: GatedRanges,
        staged: Staged[Rows],
        name: str,
        running: deque[Callable[[], _Passed[Rows]]],
        rests: deque[tuple[RowRange, ...]],
    ) -> None:
        """Start the waves that may enter. Where a gate draws from iterators, a wave begins where the one
        before it has ended, so they are drawn one after the other.
        """
        lazy = self._waves.gates[staged.depth].explode is not None
        if lazy and running:
            return
        for wave in gated.admit():
            rests.append(gated.left)
            running.append(self._started(staged, wave, name))
            if lazy:
                return

    def _started(self, staged: Staged[Rows], wave: RangeWave, name: str) -> Callable[[], _Passed[Rows]]:
        """Start what a wave has to do before the stage can take it."""
        gates, engine, depth = self._waves.gates, self._engine, staged.depth
        gate, last = gates[depth], depth + 1 == len(gates)
        rows, left = staged.take(wave, gate, f"{self._run}/{name}", in_order=self._ordered)
        expanded = rows if gate.step is None else gate.step(rows)
        at_once = gate.step is None or self._waves.sized(depth).in_flight == 1
        if last and gate.explode is None and at_once:
            return lambda: _Passed(wave, expanded, None, "", [])
        place = f"{depth + 1}-{self._run}-{next(self._waves.numbers)}"

        def work() -> _Passed[Rows]:
            if not last:
                return _Passed(wave, None, self._staged(expanded, depth + 1, place), place, left())
            kept = engine.keep(expanded, self._store.child(place), in_order=self._ordered)
            return _Passed(wave, kept, None, place, left())

        return self._ahead(work)
