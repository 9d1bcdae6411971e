"""Law 8: work in flight through a gate never passes its bound, nested gates keep each their own, and all of it comes out.

The graphs are driven tuple by tuple, in an order that is drawn: tuples expand by any fan-out, some go round a cycle,
some come to nothing. A tuple is a path of numbers; what it expands to follows from it alone, so the answer without any
gate is a plain recursion.
"""

from collections import Counter
from itertools import pairwise
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate.flow import Batcher, CountedItems, Frontier, Gate, Progress, Rows, cut_into_portions, leave
from headgate.flow.progress import precedes

Stamp = tuple[int, ...]
Row = tuple[int, ...]

gates = st.builds(Gate, st.integers(1, 3), st.integers(1, 4), st.booleans())
stamps = st.tuples(st.integers(0, 3), st.integers(0, 3))
fan_outs = st.lists(st.integers(0, 5), min_size=1, max_size=5)


class Graph:
    """A chain of nested gates; behind each one its rows go round a cycle some times, then into the next gate or out.

    Every queue is counted at its gate: `update(+)` for what is made before `update(-)` for what it is made from.
    """

    def __init__(self, levels, fan_outs, rounds, order) -> None:
        self.fan_outs, self.rounds, self.order = fan_outs, rounds, order
        self.gates: list[Batcher] = []
        for gate in levels:
            self.gates.append(Batcher(gate, outer=self.gates[-1] if self.gates else None))
        self.queues: list[list[tuple[Stamp, Row, int]]] = [[] for _ in levels]
        self.flying: list[dict[Stamp, int]] = [{} for _ in levels]
        self.handed: list[Counter[Stamp]] = [Counter() for _ in levels]
        self.made: list[Counter[Stamp]] = [Counter() for _ in levels]
        self.released: list[list[Stamp]] = [[] for _ in levels]
        self.out: list[Row] = []

    def fan_out(self, row):
        return self.fan_outs[sum(row) % len(self.fan_outs)]

    def expand(self, row, level, stamp):
        """Lazy; what was made at a gate is counted for the law."""
        for number in range(self.fan_out(row)):
            self.made[level][stamp] += 1
            yield (*row, number)

    def turns(self, row):
        return self.rounds[sum(row) % len(self.rounds)]

    def reference(self, rows, level=0):
        """What comes out without gates."""
        if level == len(self.gates):
            return list(rows)
        return self.reference(
            [(*row, n) for row in rows for n in range(self.fan_out(row)) if self.turns((*row, n)) >= 0],
            level + 1,
        )

    def admit(self, level) -> None:
        gate = self.gates[level]
        for batch in gate.admit():
            assert 0 < batch.rows == len(batch.items) <= gate.gate.batch
            self.released[level].append(batch.stamp)
            self.flying[level][batch.stamp] = batch.rows
            self.handed[level][leave(batch.stamp)] += batch.rows
            for row in batch.items:
                gate.update(batch.stamp, +1)
                self.queues[level].append((batch.stamp, row, self.turns(row)))
            if level + 1 < len(self.gates):
                self.gates[level + 1].offer(batch.stamp)
            gate.done(batch.stamp)

    def work(self, level) -> None:
        """One tuple of a queue, any of them."""
        queue = self.queues[level]
        stamp, row, turns = queue.pop(self.order.randrange(len(queue)))
        gate = self.gates[level]
        if turns > 0:
            gate.update(stamp, +1)
            queue.append((stamp, row, turns - 1))
        elif turns == 0 and level + 1 < len(self.gates):
            self.gates[level + 1].offer(stamp, Rows(self.expand(row, level + 1, stamp)))
        elif turns == 0:
            self.out.append(row)
        if level + 1 < len(self.gates) and not any(held == stamp for held, _, _ in queue):
            self.gates[level + 1].close(stamp)
        gate.update(stamp, -1)

    def check(self) -> None:
        for gate, flying, made, handed in zip(self.gates, self.flying, self.made, self.handed, strict=True):
            for stamp in [stamp for stamp in flying if gate.complete(stamp)]:
                del flying[stamp]
            batches: Counter[Stamp] = Counter()
            rows: Counter[Stamp] = Counter()
            for stamp, count in flying.items():
                held = () if gate.gate.shared else leave(stamp)
                batches[held] += 1
                rows[held] += count
            assert max(batches.values(), default=0) <= gate.gate.in_flight  # FC-10
            assert max(rows.values(), default=0) <= gate.gate.rows
            assert made == handed  # FC-13: nothing is drawn that is not in a batch

    def run(self, rows):
        top = self.gates[0]
        top.offer((), Rows(new for row in rows for new in self.expand(row, 0, ())))
        top.close(())
        idle = 0
        while not top.finished(()):
            for level in range(len(self.gates)):
                self.admit(level)
                self.check()
            busy = [level for level, queue in enumerate(self.queues) if queue]
            idle = 0 if busy else idle + 1  # an input that turns out to be empty makes room outside
            assert idle <= len(self.gates), "deadlock"
            if busy:
                self.work(self.order.choice(busy))
                self.check()
        return self.out


@given(
    st.lists(gates, min_size=1, max_size=3),
    fan_outs,
    st.lists(st.integers(-1, 2), min_size=1, max_size=4),
    st.integers(0, 2**32),
)
def test_nested_gates_keep_their_bounds_and_the_answer(levels, fan_outs, rounds, seed) -> None:
    graph = Graph(levels, fan_outs, rounds, Random(seed))
    rows = [(0,), (1,)]
    assert sorted(graph.run(rows)) == sorted(graph.reference(rows))
    for gate, released in zip(graph.gates, graph.released, strict=True):
        assert not gate.progress.outstanding
        numbers: dict[Stamp, list[int]] = {}
        for stamp in released:
            numbers.setdefault(leave(stamp), []).append(stamp[-1])
        assert all(got == list(range(len(got))) for got in numbers.values())


@given(st.integers(1, 4), st.integers(0, 12), st.data())
def test_a_batch_enters_exactly_when_the_one_n_before_it_and_all_before_that_are_done(
    width, count, data
) -> None:
    batcher = Batcher(Gate(width, 1))
    batcher.offer((), Rows(range(count)))
    batcher.close(())
    done: set[int] = set()
    released: list[int] = []
    while not batcher.finished(()):
        released += [batch.stamp[0] for batch in batcher.admit()]
        prefix = next(n for n in range(count + 1) if n not in done)
        assert released == list(range(min(count, prefix + width)))
        if flying := sorted(set(released) - done):
            one = data.draw(st.sampled_from(flying))
            batcher.done((one,))
            done.add(one)
    assert done == set(range(count))


@given(st.lists(stamps, max_size=8), stamps)
def test_a_frontier_is_an_antichain_that_says_what_the_stamps_say(held, asked) -> None:
    frontier = Frontier.of(held)
    assert all(not precedes(a, b) for a in frontier for b in frontier if a != b)
    assert (asked in frontier) == any(precedes(stamp, asked) for stamp in held)


@given(st.lists(st.tuples(stamps, st.booleans()), max_size=20))
def test_progress_counts_and_what_is_passed_stays_passed(changes) -> None:
    progress, counts = Progress(), Counter[Stamp]()
    progress.update((0, 0), +1)
    counts[(0, 0)] += 1
    passed: set[Stamp] = set()
    for stamp, more in changes:
        if more and not progress.passed(stamp):
            progress.update(stamp, +1)
            counts[stamp] += 1
        elif counts[stamp]:
            progress.update(stamp, -1)
            counts[stamp] -= 1
        assert progress.outstanding == {held for held, count in counts.items() if count}
        now: set[Stamp] = {(a, b) for a in range(4) for b in range(4) if progress.passed((a, b))}
        assert all((one in progress.frontier) != (one in now) for one in ((0, 0), (1, 2), (3, 3)))
        assert passed <= now
        passed = now


@given(st.lists(st.integers(0, 20), max_size=12), st.integers(1, 9))
def test_cutting_all_at_once_gives_what_a_batcher_releases(counts, batch) -> None:
    batcher = Batcher(Gate(in_flight=10**6, batch=batch))
    batcher.offer((), CountedItems(enumerate(counts)))
    released = [
        (one.stamp[0], portion.item, portion.start, portion.stop)
        for one in batcher.admit()
        for portion in one.items
    ]
    cuts = cut_into_portions(np.array(counts, dtype=np.int64), batch)
    columns = (cuts.wave, cuts.item, cuts.start, cuts.stop)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == released
    assert all(a <= b for a, b in pairwise(cuts.wave.tolist()))
