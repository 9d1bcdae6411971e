"""The local side of one consumer: its messages, its memory and its disk (Flux, section 6.1).

A node looks at its messages whenever it has control, and does one disk operation at a time; disk
operations are synchronous, so messages wait for the end of the one that runs (FLUX-39). Bins are in
one of two FIFO queues, active (in memory) or inactive (on disk):

- more state than memory: the head of the active queue goes to disk;
- room for the head of the inactive queue: it comes back;
- otherwise, when the bin that came in last has been active for `gap`, the two heads change places.

A bin that comes back gets all its waiting input before anything else is processed; messages are
still seen meanwhile. `gap` is the time that it took to read that bin (the paper's rule of thumb),
or what the user set: a longer gap means more throughput and more latency.
"""

from __future__ import annotations

import math
from collections import deque

from headgate.errors import ConfigError, StorageFull
from headgate.ids import Bin, Channel
from headgate.simulator.agenda import Action, Agenda
from headgate.simulator.cluster import MB
from headgate.simulator.plane import Plane


class Node:
    """A consumer as the control path sees it."""

    def __init__(
        self, number: Channel, plane: Plane, agenda: Agenda, *, limit: float | None, gap_s: float | None
    ) -> None:
        self.number = number
        self.limit = limit
        self.active: deque[Bin] = deque()
        self.inactive: deque[Bin] = deque()
        self.leaving: set[Bin] = set()
        self.activated_s: list[float] = []
        self._plane = plane
        self._agenda = agenda
        self._set_gap = gap_s
        self._gap = gap_s or 0.0
        self._inbox: deque[Action] = deque()
        self._wakes_at = math.inf

    @property
    def resident_bytes(self) -> int:
        """The state in memory."""
        return len(self.active) * self._plane.cluster.bin_bytes

    @property
    def disk_bytes(self) -> int:
        """The state on disk."""
        return len(self.inactive) * self._plane.cluster.bin_bytes

    @property
    def free_at(self) -> float:
        """When the node has control next."""
        return max(self._plane.now, float(self._plane.arrays.clock[self.number]))

    def tell(self, action: Action) -> None:
        """Send the node an action: it runs after the latency of a message, when the node has control."""
        self._agenda.put(self._plane.now + self._plane.cluster.latency_s, lambda: self.receive(action))

    def receive(self, action: Action) -> None:
        """Run an action on the node when it has control."""
        self._inbox.append(action)
        self.attend()

    def grant(self, limit: float | None) -> None:
        """Change the node's memory; bins that no longer fit go to disk (FLUX-34)."""
        if limit is not None and limit < self._plane.cluster.bin_bytes:
            raise ConfigError(
                f"node {self.number}: {limit:.0f} bytes of memory do not hold one bin of "
                f"{self._plane.cluster.bin_bytes}: grant more, or make the bins smaller"
            )
        self.limit = limit
        self.attend()

    def attend(self) -> None:
        """Handle messages and the disk if the node has control, or as soon as it has."""
        plane = self._plane
        while plane.is_free(self.number) and self._inbox:
            self._inbox.popleft()()
        if plane.is_free(self.number):
            self._use_disk()
        if not plane.is_free(self.number):
            self._wake(self.free_at)

    def adopt(self, bin: Bin) -> None:
        """Install a bin that was moved here; if it does not fit, it goes to disk at once."""
        plane, size = self._plane, self._plane.cluster.bin_bytes
        plane.spend(self.number, self._charge())
        if self.limit is not None and self.resident_bytes + size > self.limit:
            self._write(bin)
        else:
            self.active.append(bin)
        self._wake(self.free_at)

    def give_up(self, bin: Bin) -> None:
        """Extract a quiesced bin; a bin on disk is read first, and its waiting input is processed."""
        if bin in self.inactive:
            self.inactive.remove(bin)
            self._read(bin)
            self._plane.finish_run(self.number)
        else:
            self.active.remove(bin)
        self._plane.spend(self.number, self._charge())
        self.leaving.discard(bin)
        self._wake(self.free_at)

    def _charge(self) -> float:
        return self._plane.cluster.charge_s / float(self._plane.arrays.speed[self.number])

    def _use_disk(self) -> None:
        if self.limit is None:
            return
        if self._plane.arrays.run_left[self.number] > 0:
            self._wake(self._plane.run_ends_at(self.number))
            return
        size = self._plane.cluster.bin_bytes
        if self.resident_bytes > self.limit:
            self._spill()
        elif self.inactive and self.resident_bytes + size <= self.limit:
            self._bring_in()
        elif self.inactive and any(bin not in self.leaving for bin in self.active):
            due = (self.activated_s[-1] if self.activated_s else 0.0) + self._gap
            if self._plane.now + self._plane.cluster.tick_s / 2 < due:
                self._wake(due)
                return
            self._spill()
            self._bring_in()

    def _spill(self) -> None:
        bin = next((candidate for candidate in self.active if candidate not in self.leaving), None)
        if bin is None:
            return
        self.active.remove(bin)
        self._plane.spend(self.number, self._charge())
        self._write(bin)

    def _write(self, bin: Bin) -> None:
        cluster = self._plane.cluster
        if self.disk_bytes + cluster.bin_bytes > cluster.disk_mb * MB:
            raise StorageFull(
                f"node {self.number}: its disk of {cluster.disk_mb:g} MB is full with {len(self.inactive)} bins, "
                f"and bin {bin} does not fit in memory: grant more memory, or give it a larger disk"
            )
        self.inactive.append(bin)
        self._plane.spend(self.number, cluster.disk_s(cluster.bin_bytes))
        self._plane.arrays.on_disk[bin] = True

    def _bring_in(self) -> None:
        bin = self.inactive.popleft()
        self.active.append(bin)
        self._read(bin)

    def _read(self, bin: Bin) -> None:
        plane = self._plane
        waiting = int(plane.arrays.spooled[bin]) * plane.cluster.tuple_bytes
        began = self.free_at
        plane.spend(self.number, self._charge() + plane.cluster.disk_s(plane.cluster.bin_bytes + waiting))
        self.activated_s.append(self.free_at)
        self._gap = self.free_at - began if self._set_gap is None else self._set_gap
        plane.arrays.on_disk[bin] = False
        plane.run_spooled(self.number, bin)

    def _wake(self, at: float) -> None:
        if at < self._wakes_at:
            self._wakes_at = at
            self._agenda.put(at, self._woken)

    def _woken(self) -> None:
        self._wakes_at = math.inf
        self.attend()
