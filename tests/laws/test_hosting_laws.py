"""Law 9 and the reference counts: whatever arrives, leaves or fails, the state agrees with the hosted queries."""

import math
from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import assume, example, given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headgate.errors import ConfigError, NoRoom
from headgate.hosting import RULES, Balance, Host, OnRand, RareFirst, Repair

SOURCES = [f"s{i}" for i in range(7)]
RATES = [1.0, 2.0, 0.5, 0.0, 3.0, 1.0, 1.0]
source_sets = st.lists(st.sampled_from(SOURCES), min_size=1, max_size=4)


class Life(RuleBasedStateMachine):
    """Arrivals, departures, servers that come and go, under any rule, with a slow account of everything beside."""

    @initialize(
        name=st.sampled_from(sorted(RULES)),
        sizes=st.lists(st.sampled_from([1.0, 1.0, 2.0, 0.5]), min_size=1, max_size=5),
        absolute=st.sampled_from([0.0, 1.0, 10.0]),
        capacity=st.sampled_from([math.inf, math.inf, 6.0]),
        moves=st.integers(0, 4),
        sample=st.sampled_from([0, 0, 3, 12]),
    )
    def start(self, name, sizes, absolute, capacity, moves, sample) -> None:
        self.chances = iter([(i * 0.37) % 1 for i in range(10_000)])
        self.balance = Balance(0.05, absolute, capacity)
        self.moves, self.refined = moves, sample > 0
        self.host = Host(
            dict(zip(SOURCES, RATES, strict=True)),
            servers=sizes,
            rule=name,
            balance=self.balance,
            repair=Repair(moves, examine=3, sample=sample, every=2),
            draw=lambda: next(self.chances),
        )
        self.reads: dict[str, frozenset[str]] = {}
        self.costs: dict[str, float] = {}
        self.where: dict[str, int] = {}
        self.number = 0
        self.size = dict(enumerate(sizes))

    def limit(self) -> float:
        """d(n) of a server of size 1, from the definition."""
        total, k, z = sum(self.costs.values()), len(self.size), sum(self.size.values())
        mean = total / len(self.costs)
        return min(
            max(total / z + self.balance.absolute * mean * k / z, 1.05 * total / z), self.balance.capacity
        )

    def load(self, server: int) -> float:
        return sum(self.costs[q] for q, j in self.where.items() if j == server)

    def follow(self, decision) -> None:
        """Take over a decision, having checked that the receiver was within its limit at that moment."""
        self.where[decision.query] = decision.server
        held, most = self.load(decision.server), self.limit() * self.size[decision.server]
        assert decision.load == pytest.approx(held)
        if decision.fallback:
            others = [self.load(j) / z for j, z in self.size.items() if j != decision.server]
            assert held <= self.balance.capacity * self.size[decision.server] * (1 + 1e-6)
            before = (held - self.costs[decision.query]) / self.size[decision.server]
            assert before <= min([*others, math.inf]) + 1e-9 or self.balance.capacity < math.inf
        else:
            assert held <= most * (1 + 1e-6)
        budget = self.moves * (2 if self.refined else 1)  # refinement has what is left of two events
        assert sum(len(move.servers()) for move in decision.moves) <= budget
        for move in decision.moves:
            self.take_over(move, refined=self.refined)

    def take_over(self, move, *, refined: bool = False) -> None:
        """Make a move in the account, having checked what it promises. One of refinement may raise the smoothed traffic
        if it lowers the real one, and may leave a server above a limit that has shrunk, if it held no less before.
        """
        held = {j: self.load(j) if refined else 0.0 for j in (move.server, move.origin)}
        assert {self.where[query] for query in move.queries} == {move.origin}
        assert {self.where[query] for query in move.exchanged} <= {move.server}
        before, smooth = self.traffic(), self.smoothed()
        self.where |= dict(move.servers())
        assert move.saved_traffic >= -1e-9
        assert self.smoothed() < smooth or (refined and move.saved_traffic > 0)
        assert before - self.traffic() == pytest.approx(move.saved_traffic, abs=1e-9)
        for server in [move.server, move.origin][: 2 if move.exchanged else 1]:
            assert self.load(server) <= max(self.limit() * self.size[server], held[server]) * (1 + 1e-6)

    def traffic(self) -> float:
        rate = dict(zip(SOURCES, RATES, strict=True))
        return sum(rate[s] for s, _ in {(s, j) for q, j in self.where.items() for s in self.reads[q]})

    def smoothed(self) -> float:
        """Traffic in which the c-th reader of a stream counts c^-3/2."""
        rate = dict(zip(SOURCES, RATES, strict=True))
        readers = Counter((s, j) for q, j in self.where.items() for s in self.reads[q])
        return sum(rate[s] * i**-1.5 for (s, _), c in readers.items() for i in range(1, c + 1))

    def best_gain(self, most: int) -> float:
        """The most by which one move of at most so many queries can lower the smoothed traffic, for each of them.

        A query alone, or all on a server that read a source; within the limit and without more traffic.
        """
        traffic, smooth, best = self.traffic(), self.smoothed(), 0.0
        groups = {(q,) for q in self.where} | {
            tuple(q for q in self.where if self.where[q] == j and source in self.reads[q])
            for j in self.size
            for source in SOURCES
        }
        for group in groups:
            homes = {q: self.where[q] for q in group}
            for j in set(self.size) - set(homes.values()) if 1 <= len(group) <= most else ():
                if self.load(j) + sum(self.costs[q] for q in group) <= self.limit() * self.size[j]:
                    self.where |= dict.fromkeys(group, j)
                    if self.traffic() <= traffic + 1e-9:
                        best = max(best, (smooth - self.smoothed()) / len(group))
                    self.where |= homes
        return best

    @rule(sources=source_sets, cost=st.sampled_from([1.0, 1.0, 1.0, 2.5]))
    def arrive(self, sources, cost) -> None:
        query = f"q{self.number}"
        self.number += 1
        told = self.host.explain(sources, cost)
        self.reads[query], self.costs[query] = frozenset(sources), cost
        try:
            decision = self.host.place(query, sources, cost)
        except NoRoom:
            del self.reads[query], self.costs[query]
            assert told.server is None
            return
        if not isinstance(self.host.rule, OnRand):
            assert decision.server == told.server or self.tie(told, decision.server)
        self.follow(decision)

    @staticmethod
    def tie(told, server) -> bool:
        """Whether two servers differ by rounding alone."""
        score = {option.server: option.score for option in told.options}
        return math.isclose(score[server], score[told.server], rel_tol=1e-9, abs_tol=1e-9)

    @precondition(lambda self: self.where)
    @rule(data=st.data())
    def depart(self, data) -> None:
        query = data.draw(st.sampled_from(sorted(self.where)))
        self.host.remove(query)
        del self.where[query], self.reads[query], self.costs[query]
        self.where = {q: self.host.server_of(q) for q in self.where}  # repair may have moved some

    @rule(size=st.sampled_from([1.0, 2.0]))
    def grow(self, size) -> None:
        self.size[self.host.add_server(size)] = size

    @precondition(lambda self: len(self.size) > 1)
    @rule(data=st.data())
    def break_down(self, data) -> None:
        server = data.draw(st.sampled_from(sorted(self.size)))
        orphans = [q for q, j in self.where.items() if j == server]
        try:
            settled = self.host.lose_server(server)
        except NoRoom:
            return
        assert [d.query for d in settled] == sorted(orphans, key=lambda q: int(q[1:]))
        del self.size[server]
        self.where = {q: self.host.server_of(q) for q in self.where}

    @rule(moves=st.integers(0, 3))
    def mend(self, moves) -> None:
        few = len(self.where) <= 6  # the oracle tries every move
        left = moves
        for move in self.host.repair(moves):
            best, smooth = self.best_gain(left) if few else None, self.smoothed()
            self.take_over(move)
            gained = (smooth - self.smoothed()) / len(move.queries)
            if best is not None:  # queries are exchanged where no move helps
                assert best < 1e-6 if move.exchanged else gained == pytest.approx(best, abs=1e-6)
            left -= len(move.servers())
        assert left >= 0
        assert left == 0 or not few or self.best_gain(left) < 1e-6

    @rule(moves=st.integers(0, 5), sample=st.integers(1, 8), seed=st.integers(0, 99))
    def divide(self, moves, sample, seed) -> None:
        made = self.host.refine(moves, sample, seed=seed)
        assert sum(len(move.servers()) for move in made) <= min(moves, sample)
        for move in made:
            self.take_over(move, refined=True)

    @invariant()
    def state_agrees_with_the_queries(self) -> None:
        if not hasattr(self, "host"):
            return
        count: dict[tuple[str, int], int] = {}
        for query, server in self.where.items():
            for source in self.reads[query]:
                count[source, server] = count.get((source, server), 0) + 1
        assert self.host.streams() == count
        status = self.host.status()
        assert status.traffic == pytest.approx(self.traffic())
        needed = {s for q in self.where for s in self.reads[q]}
        assert status.rate_in_use == pytest.approx(sum(RATES[SOURCES.index(s)] for s in needed))
        assert status.loads == pytest.approx({j: self.load(j) for j in self.size})
        assert {q: self.host.server_of(q) for q in self.host.queries} == self.where
        self.scratch_and_popularity_agree(count)
        assert list(self.host.queries) == list(self.where)

    def scratch_and_popularity_agree(self, count: dict[tuple[str, int], int]) -> None:
        """What rules and repair remember between decisions, against its definition."""
        state = self.host._state
        assert not state.gain.any()
        assert not state.group_reads.any()
        number = {q: self.host._names.slots[q] for q in self.where}
        for s, source in enumerate(SOURCES):
            known = state.rare_readers[s, : state.rare_known[s]].tolist()
            reading = {number[q] for q in self.where if source in self.reads[q]}
            assert len(set(known)) == len(known)
            assert set(known) <= reading
        if isinstance(self.host.rule, RareFirst):
            readers = Counter(s for q in self.where for s in self.reads[q])
            for j in self.size:
                popularity = sum(RATES[SOURCES.index(s)] * readers[s] for s, at in count if at == j)
                assert state.popularity[j] == pytest.approx(popularity, abs=1e-9)
        else:
            assert state.popularity.shape == (0,)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(
    arrivals=st.lists(source_sets, min_size=1, max_size=60),
    name=st.sampled_from(sorted(set(RULES) - {"on-rand"})),
    k=st.integers(1, 6),
)
@settings(max_examples=60, deadline=None)
@example(arrivals=[["s0"]] * 10, name="least-cost", k=3)
def test_without_departures_no_server_is_ever_above_the_limit(arrivals, name, k) -> None:
    host = Host(dict(zip(SOURCES, RATES, strict=True)), servers=k, rule=name)
    for i, sources in enumerate(arrivals):
        host.place(str(i), sources)
        assert max(host.status().loads.values()) <= Balance().limit(i + 1, k) * (1 + 1e-6)
    assert host.status().fallbacks == 0


@given(
    arrivals=st.lists(source_sets, max_size=12),
    bad=st.sampled_from(["unknown", "empty", "twice", "cost", "gone", "server"]),
)
@settings(max_examples=40, deadline=None)
def test_what_is_refused_changes_nothing(arrivals, bad) -> None:
    assume(arrivals or bad != "twice")
    host = Host(dict(zip(SOURCES, RATES, strict=True)), servers=2)
    for i, sources in enumerate(arrivals):
        host.place(str(i), sources)
    before = (host.status(), host.streams(), host.queries)
    acts = {
        "unknown": lambda: host.place("new", ["s0", "nowhere"]),
        "empty": lambda: host.place("new", []),
        "twice": lambda: host.place("0", ["s0"]),
        "cost": lambda: host.place("new", ["s0"], cost=-1.0),
        "gone": lambda: host.remove("new"),
        "server": lambda: host.lose_server(2),
    }
    with pytest.raises(ConfigError):
        acts[bad]()
    assert (host.status(), host.streams(), host.queries) == before
    host.place("new", ["s0"])
