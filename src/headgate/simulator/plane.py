"""The data path as an object: arrays, the kernels that change them, and what the
control path may ask.

Time is counted in ticks; the control path acts between two of them. The methods are what Flux's
operators offer each other: pause and restart of a bin, acks, a count for each bin, idle time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headgate.errors import ConfigError
from headgate.simulator import kernels
from headgate.simulator.arrays import Arrays, Costs
from headgate.simulator.cluster import Cluster
from headgate.simulator.kernels import BIN_MASK, EXCHANGE, FLUX, NONE, RIVER
from headgate.simulator.workload import Floats, alias_table

MOVES_AT_ONCE = 32
"""The most bins that one node quiesces at a time: their acks need room in the connections."""

HELD_SLOTS = 1 << 16


class Plane:
    """Producers, connections and consumers. Keys and service times depend on `seed` alone.

    >>> plane = Plane(Cluster(nodes=2, bins_per_node=2), np.full(4, 0.25), seconds=1, seed=7)
    >>> plane.advance(100)
    100
    >>> plane.accounted()
    True
    """

    def __init__(self, cluster: Cluster, shares: Floats, *, seconds: int, seed: int, trace: int = 0) -> None:
        if len(shares) != cluster.bins:
            raise ConfigError(f"{len(shares)} shares for {cluster.bins} bins: give one for each bin")
        n, bins = cluster.nodes, cluster.bins
        spread = cluster.buffer_tuples // n if cluster.transport != "flux" else 0
        connection = cluster.connection_tuples + spread
        whole = dict.fromkeys
        shapes = {
            **whole(("ring_head", "ring_used", "ring_data"), ((n, n), np.int32)),
            **whole(("buffer", "after", "sent", "seen"), ((n, bins), np.int32)),
            **whole(("first", "last"), ((n, n), np.int32)),
            **whole(
                ("buffer_total", "blocked", "poll", "run_bin", "held_head", "held_used"), ((n,), np.int32)
            ),
            **whole(("route", "acks", "other"), ((bins,), np.int32)),
            **whole(("stalled", "on_disk", "ready"), ((bins,), np.bool_)),
            **whole(("counts", "processed", "spooled"), ((bins,), np.int64)),
            **whole(("spooled_at", "keep"), ((bins,), np.float64)),
            **whole(("clock", "idle", "speed", "run_came"), ((n,), np.float64)),
            **whole(("run_left",), ((n,), np.int64)),
            **whole(("latency",), ((seconds + 1,), np.float64)),
            **whole(("per_second",), ((seconds + 1,), np.int64)),
            **whole(("faults", "traced"), ((1,), np.int64)),
            "ring": ((n, n, connection + MOVES_AT_ONCE + 8), np.int64),
            "listed": ((n, bins), np.bool_),
            "held": ((n, HELD_SLOTS if cluster.drain_at_once else 1), np.int64),
            "held_at": ((n, HELD_SLOTS if cluster.drain_at_once else 1), np.float64),
            "trace": ((trace, 4), np.int32),
        }
        self.arrays = Arrays(**{name: np.zeros(*shape) for name, shape in shapes.items()})
        self.arrays.first[:] = NONE
        self.arrays.last[:] = NONE
        self.arrays.blocked[:] = NONE
        self.arrays.speed[:] = 1.0
        self.arrays.route[:] = np.arange(bins) % n
        self.cluster = cluster
        self.tick = 0
        self._costs = Costs(
            mode={"flux": FLUX, "exchange": EXCHANGE, "river": RIVER}[cluster.transport],
            connection=connection,
            buffer=max(cluster.buffer_tuples, 1),
            per_tick=max(int(cluster.tick_ms * 1e3 / cluster.produce_us), 1),
            tick=cluster.tick_s,
            service=cluster.service_us / 1e6,
            spread=cluster.service_spread_us / 1e6,
            overhead=cluster.overhead_us / 1e6,
            spool=cluster.spool_us / 1e6,
        )
        self._keys, self._times = (np.random.default_rng([seed, stream]) for stream in (0, 1))
        self.favour(shares)

    @property
    def now(self) -> float:
        """The time in seconds."""
        return self.tick * self.cluster.tick_s

    def favour(self, shares: Floats) -> None:
        """From now on keys fall into the bins in these shares."""
        self.arrays.keep[:], self.arrays.other[:] = alias_table(shares)

    def advance(self, until: int) -> int:
        """Run to tick `until`, or to the end of an earlier tick in which a bin got its last ack."""
        a, times = self.arrays, self._times
        self.tick = int(kernels.advance(a, self._costs, self._keys, times, self.tick, until))
        return self.tick

    def ready(self) -> list[int]:
        """The bins that got their last ack since the last call."""
        slots = np.flatnonzero(self.arrays.ready)
        self.arrays.ready[slots] = False
        return [int(bin) for bin in slots]

    def pause(self, bin: int) -> None:
        """All producers stall the bin and send their acks to its consumer."""
        kernels.pause(self.arrays, bin, int(self.arrays.route[bin]))

    def restart(self, bin: int, site: int) -> None:
        """All producers send the bin to `site` from now on."""
        kernels.restart(self.arrays, bin, site)

    def drain(self, site: int) -> None:
        """The consumer moves what is in flight to it into its own buffer."""
        kernels.drain(self.arrays, self._costs, site, max(self.now, float(self.arrays.clock[site])))

    def settle(self, site: int, bin: int) -> None:
        """The consumer processes the tuples of the bin that it holds."""
        kernels.settle(self.arrays, self._costs, site, bin, self._times)

    def run_spooled(self, site: int, bin: int) -> None:
        """The consumer has a bin back from disk: from now on its waiting input comes first."""
        self.finish_run(site)
        a, waiting = self.arrays, int(self.arrays.spooled[bin])
        a.run_bin[site], a.run_left[site] = bin, waiting
        a.run_came[site] = a.spooled_at[bin] / max(waiting, 1)
        a.spooled[bin] = 0
        a.spooled_at[bin] = 0.0

    def finish_run(self, site: int) -> None:
        """The consumer processes at once the waiting tuples of the bin that came back last."""
        kernels.finish_run(self.arrays, self._costs, site, self._times)

    def run_ends_at(self, site: int) -> float:
        """When, approximately, these will be processed without `finish_run`; in the past if none are left."""
        each = (self._costs.service + self._costs.overhead) / float(self.arrays.speed[site])
        return float(self.arrays.clock[site]) + int(self.arrays.run_left[site]) * each

    def spend(self, site: int, seconds: float) -> None:
        """Occupy the consumer with other work for a while, beginning when it is free."""
        self.arrays.clock[site] = max(self.now, float(self.arrays.clock[site])) + seconds

    def is_free(self, site: int) -> bool:
        """Whether the consumer has worked up to the present time, except for the tuple in process."""
        return bool(self.arrays.clock[site] < self.now + self.cluster.tick_s)

    def are_free(self, sites: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """As `is_free`, for several."""
        return np.asarray(self.arrays.clock[sites] < self.now + self.cluster.tick_s)

    def in_flight(self) -> npt.NDArray[np.int64]:
        """Tuples in the connections, or taken out of them and about to be processed, for each bin."""
        a, n, bins = self.arrays, self.cluster.nodes, self.cluster.bins
        counts = np.zeros(bins, np.int64)
        for p in range(n):
            for s in range(n):
                slots = (a.ring_head[p, s] + np.arange(a.ring_used[p, s])) % a.ring.shape[2]
                entries = a.ring[p, s, slots]
                counts += np.bincount(entries[entries >= 0] & BIN_MASK, minlength=bins)
        for s in range(n):
            slots = (a.held_head[s] + np.arange(a.held_used[s])) % a.held.shape[1]
            counts += np.bincount(a.held[s, slots] & BIN_MASK, minlength=bins)
        np.add.at(counts, a.run_bin, a.run_left)
        return counts

    def accounted(self) -> bool:
        """Whether every tuple that was sent is processed, waiting or in flight exactly once, and
        none is out of order.
        """
        a = self.arrays
        sent = a.sent.sum(axis=0, dtype=np.int64)
        whole = np.array_equal(sent, a.processed + a.spooled + self.in_flight())
        return bool(whole and a.faults[0] == 0 and a.buffer_total.sum() == a.buffer.sum())
