"""Work that waits gives what it would have given at once, whoever waits when, and for how long."""

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sql.world import ENGINE, NAMES, Server, batches_of, rows_of

from headgate.sql import deferral
from headgate.sql.blame import Tried
from headgate.sql.clock import Clock, after
from headgate.sql.deferral import TemplateRun, in_turns
from headgate.sql.deferred import WAITING, Chunk, Deferred, Part, waits
from headgate.sql.purses import Purses, level
from headgate.sql.shared import Piece, Work, step

TEXTS = [
    "SELECT x, city FROM {s} WHERE n > {n}",
    "SELECT city, count(*), sum(x), window_end FROM {s} WHERE n > {n} GROUP BY city, HOP(time, INTERVAL '2 seconds', INTERVAL '6 seconds')",
    "SELECT median(x), window_end FROM {s} WHERE n > {n} GROUP BY TUMBLE(time, INTERVAL '5 seconds')",
    "SELECT city, sum(n) FROM {s} WHERE n > {n} GROUP BY city, LAST 4 ROWS",
]
OWNERS = 3
QUERIES = [text.format(s=NAMES[number % 2], n=number % 4) for text in TEXTS for number in range(4)]


class Waiting(Server):
    """A server whose tenants have time in some batches only, and whose engine computes few of them at once, or few rows."""

    def __init__(self, pattern, most=99, most_rows=10**9, *, waited=False) -> None:
        """If it is `waited`, somebody else waits for all tenants: they have little time, and rows a few at a time."""
        super().__init__()
        self.pattern, self.most, self.most_rows, self.behind = pattern, most, most_rows, 0
        self.waited = waited
        self.tried: list[tuple[int, int]] = []

    def table(self, key):
        table = super().table(key)
        return table.append_column("owner", pa.array(table.column("id").to_numpy() % OWNERS))

    def attempt(self, work, seconds):
        self.tried.append((work.constants.num_rows, work.rows.num_rows))
        if work.constants.num_rows > self.most or (work.apart and work.rows.num_rows > self.most_rows):
            return Tried(0.01, why="too long", too_long=True)
        ENGINE.give(rows=work.rows)
        return Tried(0.01, step(work, ENGINE))

    def feed(self, rows) -> None:
        clock = Clock.over(self.latest, self.delay, rows)
        without = self.pattern[self.batch] if self.batch < len(self.pattern) else ()
        purses = Purses(1_000, 60, own=dict.fromkeys(without, 0.0), together=100.0)
        if self.waited:
            purses.lengthen, purses.light = lambda _: 0.08, frozenset({OWNERS})
        runs = {}
        for key, template in self.templates.items():
            state = self.states.setdefault(key, {})
            kept = {label: pieces for label, pieces in state.items() if not waits(label)}
            backlog = [
                deferred
                for label, pieces in state.items()
                if waits(label)
                for _, deferred in Deferred.of_pieces(pieces, lambda p: p.ref, lambda p: Chunk(p.ref))
            ]
            work = Work(template, self.table(key), rows, clock, self.batch, kept)
            runs[key] = TemplateRun(work, backlog, new=self.waited)
        purses.meet(
            {o for run in runs.values() for o in run.owners.tolist()},
            {o for run in runs.values() for o in run.behind.tolist()},
        )
        for run in runs.values():
            run.compute(self.attempt, purses)
        for one in purses.turns():
            in_turns(
                [*runs.values()], one, lambda run, batch, owner: run.turn(batch, owner, self.attempt, purses)
            )
        self.behind = 0
        for key, run in runs.items():
            run.finish()
            assert run.faults == {}
            self.behind += sum(run.waiting.values())
            state = self.states[key]
            for label in run.gone:
                state.pop(label, None)
            for label, tables in run.written.items():
                state.setdefault(label, []).extend(Piece(self.batch, table) for table in tables)
            for label, some in run.put_aside.items():
                tables = [table for one in some for table in (one.head(), *(c.table for c in one.chunks))]
                state[label] = [Piece(self.batch, table) for table in tables]
            self.results += [results for _, results in run.results]
        self.latest = after(self.latest, rows)
        self.batch += 1


patterns = st.lists(st.sets(st.integers(0, OWNERS - 1)), min_size=3, max_size=6)


@settings(max_examples=12)
@given(st.integers(0, 10**6), patterns, st.integers(1, 3), st.booleans(), st.integers(0, 9))
def test_any_pattern_of_waiting_gives_the_same_results(seed, pattern, most, late, first) -> None:
    """With `first`, tenants are waited for, and a template gets so many rows first."""
    rng = np.random.default_rng(seed)
    rows = rows_of(rng, 160)
    if late:  # beyond what the delay allows: batches decide, and they stay the same
        rows = rows.take(pa.array(rng.permutation(rows.num_rows)))
    whole, waiting = Server(), Waiting(pattern, most, waited=first > 0)
    for number, text in enumerate(QUERIES):
        for server in (whole, waiting):
            server.add(number, text)
    with patch.object(deferral, "FIRST_ROWS", first):
        for batch in [*batches_of(rows, rng.integers(0, 160, len(pattern) - 1)), rows.slice(0, 0)]:
            whole.feed(batch)
            waiting.feed(batch)
        for _ in range(400):
            if not waiting.behind:
                break
            waiting.feed(rows.slice(0, 0))
    assert waiting.behind == 0
    assert waiting.answers() == whole.answers()
    assert not any(waits(label) for state in waiting.states.values() for label in state)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[7:20])
def test_work_that_waits_long_is_merged_and_gives_the_same(text, monkeypatch) -> None:
    monkeypatch.setattr(deferral, "MOST_BATCHES", 3)
    rows = rows_of(np.random.default_rng(3), 200)
    whole, waiting = Server(), Waiting([{1}] * 12)
    for number in range(6):
        whole.add(number, text.format(s="alpha", n=number % 4))
        waiting.add(number, text.format(s="alpha", n=number % 4))
    for batch in batches_of(rows, range(0, 200, 20)):
        whole.feed(batch)
        waiting.feed(batch)
    (state,) = waiting.states.values()
    assert 0 < sum(map(waits, state)) <= 4
    for _ in range(5):
        waiting.feed(rows.slice(0, 0))
    assert waiting.answers() == whole.answers()


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[7:20])
@pytest.mark.parametrize("late", [False, True])
def test_a_computation_that_takes_too_long_gets_fewer_rows_at_a_time(text, late) -> None:
    rng = np.random.default_rng(4)
    rows = rows_of(rng, 300)
    if late:
        rows = rows.take(pa.array(rng.permutation(rows.num_rows)))
    whole, waiting = Server(), Waiting([{1}, {1}], most_rows=15)
    for number in range(6):
        whole.add(number, text.format(s="alpha", n=number % 4))
        waiting.add(number, text.format(s="alpha", n=number % 4))
    for batch in batches_of(rows, [120, 200]):
        whole.feed(batch)
        waiting.feed(batch)
    for _ in range(99):
        if waiting.behind:
            waiting.feed(rows.slice(0, 0))
    assert waiting.behind == 0
    assert waiting.answers() == whole.answers()
    assert 0 < min(tried for _, tried in waiting.tried) <= 15


def test_a_template_that_is_new_gets_few_rows_first_if_others_wait_for_its_tenant() -> None:
    rows = rows_of(np.random.default_rng(4), 600)
    for waited in (False, True):
        waiting = Waiting([], waited=waited)
        waiting.add(0, "SELECT x FROM alpha")
        waiting.feed(rows)
        mine = int((rows.column("source").to_numpy() == 0).sum())
        assert [count for _, count in waiting.tried] == ([32, 128, mine - 160] if waited else [600])
        assert waiting.answers()[0].total() == mine


def test_those_who_have_time_do_not_wait_for_those_who_have_not() -> None:
    rows = rows_of(np.random.default_rng(3), 100)
    waiting = Waiting([{1}])
    for number in range(3):
        waiting.add(number, "SELECT x FROM alpha")
    waiting.feed(rows)
    assert sorted(waiting.answers()) == [0, 2]
    assert waiting.behind == int((rows.column("source").to_numpy() == 0).sum())


def test_who_waits_for_too_many_batches_is_stopped(monkeypatch) -> None:
    monkeypatch.setattr(deferral, "MOST_BEHIND", 2)
    rows = rows_of(np.random.default_rng(3), 100)
    waiting = Waiting([{1}] * 9)
    for number in range(2):
        waiting.add(number, "SELECT x FROM alpha")
    first, second, third, _ = batches_of(rows, [30, 60, 90])
    waiting.feed(first)
    waiting.feed(second)
    with pytest.raises(AssertionError, match="more than 2 batches behind"):
        waiting.feed(third)


def test_what_waits_is_a_table_and_only_its_own_computations_take_it() -> None:
    rows = rows_of(np.random.default_rng(3), 50)
    one = Deferred(
        7,
        (Chunk(rows),),
        np.array([0, 2]),
        np.array([1, 2]),
        np.array([3, 4]),
        (Part(np.array([4]), 3, 9), Part(np.array([9, 5]))),
    )
    pieces = [one.head(), *(chunk.table for chunk in one.chunks)]
    ((_, back),) = Deferred.of_pieces(pieces, lambda table: table, Chunk)
    assert back.rows == rows.filter(pa.array(rows.column("source").to_numpy() != 1))
    assert [(part.ids.tolist(), part.done, part.step) for part in back.parts] == [([4], 3, 9), ([9, 5], 0, 0)]
    assert back.batch == 7
    assert back.clock(3).old.tolist()[::2] == [1, 2]
    constants = pa.table({"id": [4, 5, 9], "s0": [0, 0, 2], "born": [7, 8, 0], "owner": [1, 1, 1]})
    found = back.among(constants)
    assert found is not None
    assert found.ids.tolist() == [4, 9]  # 5 was born later: it is another
    assert back.among(constants.slice(1, 1)) is None
    assert waits(WAITING + 10**9)
    assert not waits(-30_610_224_000 * 10**6)


@given(st.floats(0.1, 10), st.lists(st.floats(0, 10), min_size=1, max_size=8))
def test_a_level_is_just_enough_for_all(together, needs) -> None:
    found = level(together, needs)
    given_out = sum(min(need, found) for need in needs)
    assert given_out == pytest.approx(min(together, sum(needs)))
    assert found >= together / len(needs) * 0.999


def test_whoever_used_much_comes_last_and_pays_its_debt() -> None:
    purses = Purses(20, 60, together=1.0)
    purses.meet([1, 2, 3, 4])
    assert purses.slow == set()
    purses.pay(1, 5.0)
    purses.pay(2, 0.1)
    assert purses.left(2, waits=True) == pytest.approx(0.15)
    assert purses.left(1, waits=True) == 0
    second = Purses(20, 60, together=1.0, before=purses.after())
    assert second.before.keys() == {1}
    second.meet([1, 2, 3, 4])
    assert second.turns() == [1]
    assert second.left(1, waits=True) == 0
    assert second.left(2, waits=True) > 0
    debts, last = [], second
    for _ in range(30):
        last = Purses(20, 60, together=1.0, before=last.after())
        last.meet([1, 2, 3, 4])
        debts.append(last.before.get(1, (0, 0))[1])
    assert sorted(debts, reverse=True) == debts
    assert debts[-1] == 0
    alone = Purses(20, 60, together=1.0)
    alone.meet([7])
    assert alone.left(7, waits=True) == 60
