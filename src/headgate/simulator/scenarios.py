"""The scenarios by name: the machines, the keys, and the events of a run.

A scenario is a function of the options, so each can be tried with other numbers
of machines and seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from headgate.errors import ConfigError
from headgate.routing.table import Table
from headgate.simulator.cluster import Cluster
from headgate.simulator.run import Event
from headgate.simulator.workload import Floats, eighty_twenty, favouring, uniform

AT_S = 1.0


@dataclass(frozen=True)
class Options:
    """Options of a scenario: `machines` is the number of affected nodes, and `seed` decides which."""

    nodes: int = 32
    seconds: int = 30
    seed: int = 1
    machines: int = 1

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not 1 <= self.nodes <= 256:
            raise ConfigError(f"nodes={self.nodes} is outside 1..256")
        if not 0 <= self.machines <= self.nodes:
            raise ConfigError(f"machines={self.machines} is outside 0..nodes={self.nodes}")
        if not 1 <= self.seconds <= 3600:
            raise ConfigError(f"seconds={self.seconds} is outside 1..3600")

    @property
    def hit(self) -> tuple[int, ...]:
        """The affected machines."""
        order = np.random.default_rng([self.seed, 7]).permutation(self.nodes)
        return tuple(int(node) for node in order[: self.machines])


@dataclass(frozen=True)
class Setup:
    """What a simulation needs besides a policy."""

    cluster: Cluster
    shares: Floats
    events: list[Event] = field(default_factory=list)
    table: Table | None = None


def steady(options: Options) -> Setup:
    """Nothing happens: a policy should do nothing."""
    cluster = Cluster(nodes=options.nodes)
    return Setup(cluster, uniform(cluster.bins))


def slow(options: Options) -> Setup:
    """Some machines drop to 43% of their speed after a second, for good."""
    cluster = Cluster(nodes=options.nodes)
    return Setup(cluster, uniform(cluster.bins), [Event(AT_S, options.hit, speed=cluster.loaded_speed)])


def going_round(options: Options) -> Setup:
    """A load visits one machine after the other, half a second each."""
    cluster = Cluster(nodes=options.nodes)
    events = []
    for step in range(2 * options.seconds):
        node, before = step % options.nodes, (step - 1) % options.nodes
        if step:
            events.append(Event(0.5 * step, (before,), speed=1.0))
        events.append(Event(0.5 * step, (node,), speed=cluster.loaded_speed))
    return Setup(cluster, uniform(cluster.bins), events)


def bursts(options: Options) -> Setup:
    """The keys of one machine after the other are four times as frequent, for a quarter of a second each."""
    cluster = Cluster(nodes=options.nodes)
    even = uniform(cluster.bins)
    events = []
    for step in range(4 * options.seconds):
        theirs = np.arange(step % options.nodes, cluster.bins, options.nodes)
        events.append(Event(0.25 * step, shares=favouring(even, theirs, 4.0)))
    return Setup(cluster, even, events)


def skewed(options: Options) -> Setup:
    """80/20 keys, with nothing else happening; the hottest key has a quarter of the rows."""
    cluster = Cluster(nodes=options.nodes)
    return Setup(cluster, eighty_twenty(cluster.bins, np.random.default_rng([options.seed, 9])))


def skewed_slow(options: Options) -> Setup:
    """80/20 keys, and the machine with the hottest one slow from the start, with some others."""
    start = skewed(options)
    hottest = int(np.argmax(start.shares)) % options.nodes
    others = [node for node in options.hit if node != hottest]
    nodes = (hottest, *others)[: options.machines]
    return Setup(start.cluster, start.shares, [Event(0.0, nodes, speed=start.cluster.loaded_speed)])


def _big_bins(options: Options) -> Cluster:
    return Cluster(
        nodes=options.nodes, bins_per_node=128, bin_tuples=75_000, memory_mb=1024, drain_at_once=True
    )


def memory(options: Options) -> Setup:
    """Some machines lose 512 MB of their 1 GB after a second; a machine's state is 768 MB."""
    cluster = _big_bins(options)
    return Setup(cluster, uniform(cluster.bins), [Event(AT_S, options.hit, memory_mb=512)])


def pressed(options: Options) -> Setup:
    """Some machines lose both, speed and memory, from the start."""
    cluster = _big_bins(options)
    events = [Event(0.0, options.hit, speed=cluster.loaded_speed, memory_mb=512)]
    return Setup(cluster, uniform(cluster.bins), events)


def grow(options: Options) -> Setup:
    """Half of the machines hold all bins at first; the others join after a second."""
    cluster = Cluster(nodes=options.nodes)
    half = max(options.nodes // 2, 1)
    events = [Event(AT_S, channels=options.nodes)]
    return Setup(cluster, uniform(cluster.bins), events, Table.uniform(cluster.bins, half))


SCENARIOS: dict[str, Callable[[Options], Setup]] = {
    "steady": steady,
    "slow": slow,
    "going-round": going_round,
    "bursts": bursts,
    "skewed": skewed,
    "skewed-slow": skewed_slow,
    "memory": memory,
    "pressed": pressed,
    "grow": grow,
}


def about(name: str) -> str:
    """The scenario in a sentence."""
    return (SCENARIOS[name].__doc__ or "").strip().splitlines()[0]
