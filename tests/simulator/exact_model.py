"""The data path again, slow and obvious: tuples are objects in queues, and nothing is counted that can be looked at.

It has the face of `Plane`, so the same control path drives both, and it draws the same random numbers in the same
order: the traces must be equal, tuple by tuple. Only transport flux.
"""

from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np

from headgate.simulator.workload import alias_table


class Tuple:
    def __init__(self, producer, bin, serial) -> None:
        self.producer, self.bin, self.serial = producer, bin, serial


class Ack:
    def __init__(self, bin) -> None:
        self.bin = bin


class Producer:
    def __init__(self, number, consumers) -> None:
        self.number = number
        self.buffer: dict[int, deque[Tuple]] = {}  # bin -> tuples waiting, oldest first
        self.turns: list[deque[int]] = [
            deque() for _ in range(consumers)
        ]  # bins with tuples for each consumer
        self.connections: list[deque[Tuple | Ack]] = [deque() for _ in range(consumers)]
        self.made: dict[int, int] = {}

    def buffered(self):
        return sum(len(waiting) for waiting in self.buffer.values())

    def room(self, consumer, capacity):
        return sum(isinstance(entry, Tuple) for entry in self.connections[consumer]) < capacity


class ExactPlane:
    def __init__(self, cluster, shares, *, seconds, seed, trace=0) -> None:
        self.cluster = cluster
        self.tick = 0
        n = cluster.nodes
        self.producers = [Producer(number, n) for number in range(n)]
        self.trace: list[
            tuple[int, int, int, int]
        ] = []  # (producer, consumer, bin, serial) as tuples enter a consumer
        self.done: list[
            tuple[int, int, int, int]
        ] = []  # (consumer, producer, bin, serial) as they are processed
        self.spool: dict[int, list[tuple[Tuple, float]]] = {}  # bin -> [(tuple, came)]
        self.run: list[deque[tuple[Tuple, float]]] = [deque() for _ in range(n)]
        self.held: list[deque[tuple[Tuple, float]]] = [deque() for _ in range(n)]
        self.poll = [0] * n
        self.acked: dict[Any, Any] = {}
        self.complete: set[Any] = set()
        self.keys, self.times = (np.random.default_rng([seed, stream]) for stream in (0, 1))
        zeros = np.zeros
        self.arrays = SimpleNamespace(
            route=np.arange(cluster.bins) % n,
            stalled=zeros(cluster.bins, bool),
            on_disk=zeros(cluster.bins, bool),
            counts=zeros(cluster.bins, np.int64),
            spooled=zeros(cluster.bins, np.int64),
            clock=zeros(n),
            idle=zeros(n),
            speed=np.ones(n),
            run_left=zeros(n, np.int64),
            per_second=zeros(seconds + 1, np.int64),
            latency=zeros(seconds + 1),
        )
        self.favour(shares)

    @property
    def now(self):
        return self.tick * self.cluster.tick_s

    def favour(self, shares) -> None:
        self.keep, self.other = alias_table(shares)

    def draw(self):
        x = self.keys.random() * len(self.keep)
        i = min(int(x), len(self.keep) - 1)
        return i if x - i < self.keep[i] else int(self.other[i])

    def produce(self, p) -> None:
        made, most = 0, max(int(self.cluster.tick_ms * 1e3 / self.cluster.produce_us), 1)
        while True:
            before = made
            while p.buffered() < max(self.cluster.buffer_tuples, 1) and made < most:
                b = self.draw()
                serial = p.made.get(b, 0)
                p.made[b] = serial + 1
                p.buffer.setdefault(b, deque()).append(Tuple(p.number, b, serial))
                made += 1
                turns = p.turns[self.arrays.route[b]]
                if b not in turns and not self.arrays.stalled[b]:
                    turns.append(b)
            moved = 0
            for s in range(self.cluster.nodes):
                while p.turns[s] and p.room(s, self.cluster.connection_tuples):
                    b = p.turns[s].popleft()
                    p.connections[s].append(p.buffer[b].popleft())
                    moved += 1
                    if p.buffer[b]:
                        p.turns[s].append(b)
            if not moved and made == before:
                return

    def process(self, s, one, came) -> None:
        c = self.cluster
        spent = (
            c.overhead_us / 1e6
            + c.service_us / 1e6
            + c.service_spread_us / 1e6 * self.times.standard_normal()
        )
        a = self.arrays
        a.clock[s] += max(spent, 0.0) / a.speed[s]
        a.counts[one.bin] += 1
        self.done.append((s, one.producer, one.bin, one.serial))
        second = min(int(a.clock[s]), len(a.per_second) - 1)
        a.per_second[second] += 1
        a.latency[second] += a.clock[s] - came

    def work(self, s, one, came) -> None:
        if self.arrays.on_disk[one.bin]:
            self.arrays.clock[s] += self.cluster.spool_us / 1e6
            self.spool.setdefault(one.bin, []).append((one, came))
            self.arrays.spooled[one.bin] += 1
        else:
            assert not self.spool.get(one.bin), "it would overtake what waits"
            self.process(s, one, came)

    def next_connection(self, s):
        n = self.cluster.nodes
        for step in range(n):
            p = (self.poll[s] + step) % n
            if self.producers[p].connections[s]:
                self.poll[s] = (p + 1) % n
                return self.producers[p].connections[s]
        return None

    def ack(self, bin) -> None:
        self.acked[bin] = self.acked.get(bin, 0) + 1
        if self.acked[bin] == self.cluster.nodes:
            del self.acked[bin]
            self.complete.add(bin)

    def enter(self, s, one) -> None:
        self.trace.append((one.producer, s, one.bin, one.serial))

    def consume(self, s, end) -> None:
        a = self.arrays
        while a.clock[s] < end:
            if self.run[s]:
                self.step_run(s)
                continue
            if self.held[s]:
                one, came = self.held[s].popleft()
                self.work(s, one, came)
                continue
            connection = self.next_connection(s)
            if connection is None:
                a.idle[s] += end - a.clock[s]
                a.clock[s] = end
                return
            entry = connection.popleft()
            if isinstance(entry, Ack):
                self.ack(entry.bin)
            else:
                self.enter(s, entry)
                self.work(s, entry, a.clock[s])

    def advance(self, until):
        while self.tick < until and not self.complete:
            for p in self.producers:
                self.produce(p)
            self.tick += 1
            for s in range(self.cluster.nodes):
                self.consume(s, self.tick * self.cluster.tick_s)
        return self.tick

    def ready(self):
        found = sorted(self.complete)
        self.complete.clear()
        return found

    def pause(self, bin) -> None:
        s = int(self.arrays.route[bin])
        self.arrays.stalled[bin] = True
        for p in self.producers:
            if bin in p.turns[s]:
                p.turns[s].remove(bin)
            p.connections[s].append(Ack(bin))

    def restart(self, bin, site) -> None:
        self.arrays.route[bin] = site
        self.arrays.stalled[bin] = False
        for p in self.producers:
            if p.buffer.get(bin):
                p.turns[site].append(bin)

    def drain(self, site) -> None:
        now = max(self.now, self.arrays.clock[site])
        for p in self.producers:
            while p.connections[site]:
                entry = p.connections[site].popleft()
                if isinstance(entry, Ack):
                    self.ack(entry.bin)
                else:
                    self.enter(site, entry)
                    self.held[site].append((entry, now))

    def settle(self, site, bin) -> None:
        mine = [pair for pair in self.held[site] if pair[0].bin == bin]
        self.held[site] = deque(pair for pair in self.held[site] if pair[0].bin != bin)
        for one, came in mine:
            self.work(site, one, came)

    def step_run(self, s) -> None:
        one, came = self.run[s].popleft()
        self.arrays.run_left[s] -= 1
        self.process(s, one, came)

    def finish_run(self, site) -> None:
        while self.run[site]:
            self.step_run(site)

    def run_spooled(self, site, bin) -> None:
        self.finish_run(site)
        self.run[site] = deque(self.spool.pop(bin, []))
        self.arrays.run_left[site] = len(self.run[site])
        self.arrays.spooled[bin] = 0

    def run_ends_at(self, site):
        each = (self.cluster.service_us + self.cluster.overhead_us) / 1e6 / self.arrays.speed[site]
        return self.arrays.clock[site] + len(self.run[site]) * each

    def spend(self, site, seconds) -> None:
        self.arrays.clock[site] = max(self.now, self.arrays.clock[site]) + seconds

    def is_free(self, site):
        return self.arrays.clock[site] < self.now + self.cluster.tick_s

    def are_free(self, sites):
        return np.array([self.is_free(site) for site in sites], bool)

    def in_queues(self):
        """Every tuple that was made and is not processed, wherever it is."""
        for p in self.producers:
            for waiting in p.buffer.values():
                yield from waiting
            for connection in p.connections:
                yield from (entry for entry in connection if isinstance(entry, Tuple))
        for pairs in (*self.spool.values(), *self.run, *self.held):
            yield from (one for one, _ in pairs)

    def accounted(self) -> bool:
        """All made tuples are processed once or waiting once, and each bin's in order for each producer."""
        made = {
            (p.number, b, serial) for p in self.producers for b, n in p.made.items() for serial in range(n)
        }
        done = [key[1:] for key in self.done]
        waiting = [(one.producer, one.bin, one.serial) for one in self.in_queues()]
        if len(done) + len(waiting) != len(made) or {*done, *waiting} != made:
            return False
        last: dict[tuple[int, int], int] = {}
        for producer, bin, serial in done:
            if serial != last.get((producer, bin), -1) + 1:
                return False
            last[producer, bin] = serial
        return True
