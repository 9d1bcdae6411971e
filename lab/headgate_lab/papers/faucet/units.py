"""The invariants (FC-10..14), exactly: a small graph with a cycle, driven in random order, and
the paper's worked example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from headgate.flow import Batcher, Gate, Rows, Stamp, leave
from headgate_lab.papers.claims import Claim

Row = tuple[int, ...]


class Loop:
    """Two nested gates; inside the inner one a row goes round as often as its last number says, so
    the graph has a cycle.
    """

    def __init__(self, gate: Gate, *, roots: int = 16, seed: int = 1) -> None:
        self.roots = roots
        self.outer = Batcher(gate)
        self.inner = Batcher(gate, outer=self.outer)
        self.results: Counter[Row] = Counter()
        self.most_batches = self.most_rows = self.empty_batches = 0
        self.drawn_ahead = 0
        """Rows made by the lazy expansion that are in no released batch."""
        self._made = self._released = 0
        self._rng = np.random.default_rng([seed, 4])
        self._inside: dict[Stamp, int] = {}
        self._cycle: list[tuple[Stamp, Row, int]] = []
        self._fruitful: set[Stamp] = set()

    def fan_out(self, row: Row) -> int:
        """Heavy-tailed: one root in eight has 300 rows, others have up to 3 or none."""
        return 300 if row[0] % 8 == 7 and len(row) == 1 else row[-1] % 4

    def expand(self, row: Row) -> Iterator[Row]:
        """Lazy; counts what it makes."""
        for number in range(self.fan_out(row)):
            self._made += 1
            yield (*row, number)

    def expected(self) -> Counter[Row]:
        """The results without gates: rows whose last number is odd come out."""
        first = [(root, n) for root in range(self.roots) for n in range(self.fan_out((root,)))]
        second = [(*row, n) for row in first for n in range(self.fan_out(row))]
        return Counter(row for row in second if row[-1] % 2)

    def run(self) -> Loop:
        """Run until all is complete; if nothing can go on before that, it is a deadlock."""
        self.outer.offer((), Rows(row for root in range(self.roots) for row in self.expand((root,))))
        self.outer.close(())
        idle = 0
        while not self.outer.finished(()):
            before = self._released
            self._admit()
            self._look()
            moved = self._cycle or self._released > before
            idle = 0 if moved else idle + 1  # an input that turns out to be empty makes room outside
            if idle > 2:
                raise AssertionError("deadlock")
            if self._cycle:
                self._turn()
        self._look()
        return self

    def _admit(self) -> None:
        for batch in self.outer.admit():
            self._inside[batch.stamp] = batch.rows
            self._released += batch.rows
            self.inner.offer(batch.stamp, Rows(new for row in batch.items for new in self.expand(row)))
            self.inner.close(batch.stamp)
            self.outer.done(batch.stamp)
        for batch in self.inner.admit():
            self._inside[batch.stamp] = batch.rows
            self._released += batch.rows
            self.inner.update(batch.stamp, +batch.rows)
            self._cycle += [(batch.stamp, row, row[-1]) for row in batch.items]
            self.inner.done(batch.stamp)

    def _turn(self) -> None:
        """Take a random row: it goes round once more, leaves, or is dropped."""
        stamp, row, turns = self._cycle.pop(int(self._rng.integers(len(self._cycle))))
        if turns:
            self.inner.update(stamp, +1)
            self._cycle.append((stamp, row, turns - 1))
        elif row[-1] % 2:
            self.results[row] += 1
            self._fruitful.add(stamp)
        self.inner.update(stamp, -1)

    def _look(self) -> None:
        """Record what is in flight."""
        gone = [s for s in self._inside if (self.outer, self.inner)[len(s) - 1].complete(s)]
        self.empty_batches += sum(len(s) == 2 and s not in self._fruitful for s in gone)
        for stamp in gone:
            del self._inside[stamp]
        batches: Counter[Stamp] = Counter()
        rows: Counter[Stamp] = Counter()
        for stamp, number in self._inside.items():
            batches[leave(stamp)] += 1
            rows[leave(stamp)] += number
        self.most_batches = max(self.most_batches, *batches.values(), 0)
        self.most_rows = max(self.most_rows, *rows.values(), 0)
        self.drawn_ahead = max(self.drawn_ahead, self._made - self._released)


def worked_example() -> list[str]:
    """Section 4.1 with one batch of one tuple: what is admitted, in order, with its stamp counted from 1."""
    neighbours = {"a11": ("a21", "a22"), "a12": ("a23",)}
    outer = Batcher(Gate(1, 1))
    inner = Batcher(Gate(1, 1), outer=outer)
    outer.offer((), Rows(neighbours))
    outer.close(())
    admitted = []
    while not outer.finished(()):
        for batch in outer.admit():
            admitted.append(f"({batch.items[0]}) u{batch.stamp[0] + 1}")
            inner.offer(batch.stamp, Rows((a, b) for a in batch.items for b in neighbours[a]))
            inner.close(batch.stamp)
            outer.done(batch.stamp)
        for batch in inner.admit():
            u, v = batch.stamp
            admitted.append(f"({','.join(batch.items[0])}) u{u + 1},v{v + 1}")
            inner.done(batch.stamp)
    return admitted


EXAMPLE = "(a11) u1; (a11,a21) u1,v1; (a11,a22) u1,v2; (a12) u2; (a12,a23) u2,v1"


def invariants() -> list[Claim]:
    """FC-10..14."""
    gates = [Gate(n, b) for n in (1, 2, 5) for b in (1, 3, 40)]
    runs = [(gate, Loop(gate, seed=seed).run()) for gate in gates for seed in (1, 2)]
    same = [run.results == run.expected() for _, run in runs]
    admitted = "; ".join(worked_example())
    batches = max(run.most_batches - gate.in_flight for gate, run in runs)
    rows = max(run.most_rows - gate.rows for gate, run in runs)
    ahead = max(run.drawn_ahead for _, run in runs)
    empty = sum(run.empty_batches for _, run in runs)
    return [
        Claim("FC-10", "incomplete batches of one outer stamp, less N: most in 18 runs", "at most 0", batches, "exact", batches <= 0,
              "two nested gates, N 1..5, B 1..40, tuples taken in random order"),
        Claim("FC-11", "a cycle inside: results, all released, no deadlock", "as without gates",
              f"{sum(same)} of {len(same)} runs the same", "exact", all(same)),
        Claim("FC-12", "worked example, N = B = 1: admitted", EXAMPLE, admitted, "exact", admitted == EXAMPLE),
        Claim("FC-13", "lazy expansion, up to 300 rows a tuple: rows of one outer stamp inside, less N B; drawn ahead",
              {"rows": 0, "ahead": 0}, {"rows": rows, "ahead": ahead}, "at most; exact", rows <= 0 and ahead == 0),
        Claim("FC-14", "batches without any output that were seen complete", "all of them", f"{empty}, and every run ended",
              "exact", empty > 0 and all(same)),
    ]  # fmt: skip
