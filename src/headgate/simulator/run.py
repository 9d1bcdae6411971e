"""One run: a cluster, keys, a policy and events in, figures out.

The policy runs in the same `control.Loop` as on Spark: a round of the controller is a batch, and
the newest table is in force when all its bins have been restarted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headgate.control.guard import Guard
from headgate.control.loop import Decision, Loop
from headgate.control.policy import Policy
from headgate.control.report import BatchReport
from headgate.control.tuning import Tuner
from headgate.control.view import LoadView
from headgate.errors import ConfigError
from headgate.policies.static import Static
from headgate.routing.table import Table
from headgate.simulator.agenda import Agenda
from headgate.simulator.cluster import MB, Cluster
from headgate.simulator.controller import Controller, Round
from headgate.simulator.movement import Movement
from headgate.simulator.node import Node
from headgate.simulator.plane import Plane
from headgate.simulator.workload import Floats

EAGER = Guard(min_gain=0.0, cool_down_batches=0)
"""A guard that accepts every plan: the paper has no guard but the damping of its rounds."""


@dataclass(frozen=True)
class Event:
    """A change at a given time: the speed of nodes, their memory (MB), the keys' shares, or
    the number of channels.
    """

    at_s: float
    nodes: tuple[int, ...] = ()
    speed: float | None = None
    memory_mb: float | None = None
    shares: Floats | None = field(default=None, compare=False)
    channels: int | None = None


@dataclass(frozen=True)
class Result:
    """The figures of a run by second, and its rounds."""

    cluster: Cluster
    seconds: int
    throughput: npt.NDArray[np.float64]
    latency_s: npt.NDArray[np.float64]
    on_disk: npt.NDArray[np.int64]
    rounds: tuple[Round, ...]
    activated_s: tuple[tuple[float, ...], ...]
    stalled_s: tuple[float, ...]
    table: Table
    accounted: bool

    @property
    def moves(self) -> int:
        """Bins moved."""
        return sum(len(each.moves) for each in self.rounds)

    @property
    def moved_bytes(self) -> int:
        """State moved."""
        return self.moves * self.cluster.bin_bytes

    @property
    def moving_share(self) -> float:
        """The fraction of the time that was spent in move phases."""
        return sum(each.move_s for each in self.rounds) / self.seconds

    @property
    def last_move_s(self) -> float:
        """When the last move ended; 0 if there were none."""
        return max(
            (each.began_s + each.collect_s + each.move_s for each in self.rounds if each.moves), default=0.0
        )

    def mean(self, start: float, end: float | None = None) -> float:
        """Tuples per second between two seconds."""
        return float(self.throughput[int(start) : None if end is None else int(end)].mean())

    def mean_latency(self, start: float, end: float | None = None) -> float:
        """The mean latency of the tuples processed between two seconds."""
        cut = slice(int(start), None if end is None else int(end))
        done = self.throughput[cut]
        return float((self.latency_s[cut] * done).sum() / max(done.sum(), 1))


class Simulation:
    """Builds the parts of a simulation and runs them.

    `events` happen at their times. `loop_view` carries the smoothing of the policy's view (none by
    default, as in the paper); with `tuned` the collection time is found during the run, beginning
    with `delta_min_s`. `record` gets every report and decision, as a journal would.
    """

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        shares: Floats,
        *,
        seconds: int,
        seed: int,
        events: Sequence[Event] = (),
        table: Table | None = None,
        guard: Guard = EAGER,
        delta_min_s: float = 0.01,
        gap_s: float | None = None,
        tuned: bool = False,
        loop_view: LoadView | None = None,
        record: Callable[[BatchReport, Decision], None] | None = None,
        trace: int = 0,
    ) -> None:
        if seconds < 1:
            raise ConfigError(f"seconds={seconds}: a run lasts a second at least")
        if not delta_min_s > 0:
            raise ConfigError(f"delta_min_s={delta_min_s} must be above 0")
        if gap_s is not None and gap_s < 0:
            raise ConfigError(f"gap_s={gap_s} must be 0 or more; None takes the time of the last read")
        if cluster.transport != "flux" and not isinstance(policy, Static):
            raise ConfigError(f"{cluster.transport} cannot move bins: take policy static, or transport flux")
        self.cluster, self.seconds = cluster, seconds
        self.plane = Plane(cluster, shares, seconds=seconds, seed=seed, trace=trace)
        self.agenda = Agenda(cluster.tick_s)
        table = policy.initial(cluster.bins, cluster.nodes) if table is None else table
        self.plane.arrays.route[:] = table.assignment
        limit = None if cluster.memory_mb is None else cluster.memory_mb * MB
        self.nodes = [
            Node(number, self.plane, self.agenda, limit=limit, gap_s=gap_s) for number in range(cluster.nodes)
        ]
        for bin, channel in table.items():
            self.nodes[channel].active.append(bin)
        self.movement = Movement(self.plane, self.agenda, self.nodes)
        loop = Loop(policy, guard, "act", table, view=LoadView(alpha=1.0) if loop_view is None else loop_view)
        self.controller = Controller(
            self.plane,
            self.agenda,
            self.nodes,
            self.movement,
            loop,
            delta_min_s=delta_min_s,
            tuner=Tuner(delta_min_s) if tuned else None,
            record=record,
        )
        self._on_disk = np.zeros((seconds, cluster.nodes), np.int64)
        for event in events:
            self.agenda.put(event.at_s, lambda event=event: self._happen(event))  # type: ignore[misc]
        for second in range(seconds):
            self.agenda.put(second + 1 - cluster.tick_s, lambda second=second: self._sample(second))  # type: ignore[misc]
        if not isinstance(policy, Static) or any(event.channels is not None for event in events):
            self.agenda.put(0.0, self.controller.begin)

    def run(self, progress: Callable[[float], None] | None = None) -> Result:
        """Run to the end. Deterministic: the same arguments give the same result, byte for byte."""
        end = round(self.seconds / self.cluster.tick_s)
        pause = max(end // 100, 1)
        for tick in range(pause, end + pause, pause):
            self.step(min(tick, end))
            if progress is not None:
                progress(min(tick, end) / end)
        return self._result()

    def step(self, until: int) -> None:
        """Run to a tick, and do what is due then."""
        while True:
            while self.agenda.do(self.plane.tick) or self._quiesced():
                pass
            if self.plane.tick >= until:
                return
            self.plane.advance(self.agenda.next_tick(until))

    def _quiesced(self) -> bool:
        ready = self.plane.ready()
        for bin in ready:
            self.movement.quiesced(bin)
        return bool(ready)

    def _happen(self, event: Event) -> None:
        if event.shares is not None:
            self.plane.favour(event.shares)
        if event.channels is not None:
            self.controller.loop.request_channels(event.channels)
        for node in event.nodes:
            if event.speed is not None:
                self.plane.arrays.speed[node] = event.speed
            if event.memory_mb is not None:
                self.nodes[node].grant(event.memory_mb * MB)

    def _sample(self, second: int) -> None:
        self._on_disk[second] = [len(node.inactive) for node in self.nodes]

    def _result(self) -> Result:
        a, seconds = self.plane.arrays, self.seconds
        done = a.per_second[:seconds].astype(np.float64)
        return Result(
            cluster=self.cluster,
            seconds=seconds,
            throughput=done,
            latency_s=a.latency[:seconds] / np.maximum(done, 1),
            on_disk=self._on_disk,
            rounds=tuple(self.controller.rounds),
            activated_s=tuple(tuple(node.activated_s) for node in self.nodes),
            stalled_s=tuple(self.movement.stalled_s),
            table=self.controller.loop.table,
            accounted=self.plane.accounted(),
        )
