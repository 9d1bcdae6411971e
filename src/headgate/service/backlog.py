"""The pushed rows that wait for a batch, by tenant, in memory; and the offset that says which of them were taken.

An offset is {"lane", "next", "behind"}: all files before (lane, next) were taken, but for tenants that are behind; of
those, everything before [lane, number, row]. Only tenants that have rows waiting are behind, so an offset stays small.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headgate.service.fair import fair_shares
from headgate.service.push_lanes import Part, PushFile, claim_of

Place = tuple[int, int, int]
"""(claim of a lane, number of a file, row): places have the order in which rows were pushed."""


@dataclass(frozen=True)
class Waiting:
    """Rows of a tenant in one file."""

    lane: str
    number: int
    part: Part
    since: float
    """When they were accepted, by a clock that only goes forward."""


@dataclass(frozen=True)
class Taken:
    """Some of these rows, for a batch."""

    lane: str
    number: int
    part: Part
    start: int
    end: int

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.end - self.start

    @property
    def size(self) -> int:
        """About how many bytes they take in memory."""
        return self.part.size * self.rows // max(1, self.part.rows)


class _Queue:
    """What waits of one tenant."""

    def __init__(self) -> None:
        self.waiting: deque[Waiting] = deque()
        self.skip = 0
        """Rows of the first that were taken."""
        self.rows = self.size = 0

    def drop(self, rows: int) -> None:
        part = self.waiting[0].part
        before = part.size * self.skip // part.rows
        self.skip += rows
        self.rows -= rows
        self.size -= part.size * self.skip // part.rows - before
        if self.skip == part.rows:
            self.waiting.popleft()
            self.skip = 0


class Backlog:
    """What waits, and up to where. Not thread-safe."""

    def __init__(self, lane: str) -> None:
        self.lane, self.next = lane, 0
        """Where the next file will be."""
        self._queues: dict[str, _Queue] = {}
        self.rows = self.size = 0

    def add(self, file: PushFile, since: float, offset: Any = None) -> None:
        """Add the rows of a file, or those that an offset leaves."""
        for part in file.parts:
            left = part.rows if offset is None else part.rows - _covered(offset, part, file)
            if left <= 0:
                continue
            queue = self._queues.setdefault(part.tenant, _Queue())
            queue.waiting.append(Waiting(file.lane, file.number, part, since))
            queue.rows += part.rows
            queue.size += part.size
            self.rows += part.rows
            self.size += part.size
            if left < part.rows:  # then it is the first of its tenant
                self._drop(queue, part.rows - left)
        if file.lane == self.lane:
            self.next = file.number + 1

    def _drop(self, queue: _Queue, rows: int) -> None:
        size = queue.size
        queue.drop(rows)
        self.rows -= rows
        self.size -= size - queue.size

    def of(self, tenant: str) -> tuple[int, int]:
        """How many rows and bytes of a tenant wait."""
        queue = self._queues.get(tenant)
        return (queue.rows, queue.size) if queue else (0, 0)

    def tenants(self) -> dict[str, tuple[int, int]]:
        """By tenant: how many rows and bytes wait."""
        return {tenant: (queue.rows, queue.size) for tenant, queue in self._queues.items()}

    def __len__(self) -> int:
        return len(self._queues)

    def oldest(self) -> dict[str, float]:
        """Since when the first waiting rows of each tenant wait; the oldest tenant first."""
        since = {tenant: queue.waiting[0].since for tenant, queue in self._queues.items()}
        return dict(sorted(since.items(), key=lambda item: item[1]))

    def first(self) -> tuple[str, int]:
        """The first file that is needed; the next one if nothing waits."""
        places = [(queue.waiting[0].lane, queue.waiting[0].number) for queue in self._queues.values()]
        return min(places, key=lambda place: (claim_of(place[0]), place[1]), default=(self.lane, self.next))

    def take(
        self,
        rows: int,
        size: int,
        weights: Mapping[str, float] | None = None,
        most: Mapping[str, int] | None = None,
    ) -> tuple[list[Taken], dict[str, Any], bool]:
        """A fair share of every tenant's rows, within bounds of rows and bytes, and of what each may have at most, in
        the order in which they were pushed; the offset after them; and whether rows are left. Nothing changes until
        the offset is committed.
        """
        order = self.oldest()
        most = most or {}
        waiting = {
            tenant: min(self._queues[tenant].rows, most.get(tenant, self._queues[tenant].rows))
            for tenant in order
        }
        each = size / rows  # a row costs its bytes, but at least so much that the bound of rows holds too
        cost = {
            tenant: max(each, self._queues[tenant].size / self._queues[tenant].rows)
            for tenant, count in waiting.items()
            if count
        }
        shares = fair_shares(waiting, size, weights=weights, cost=cost)
        taken, behind = list[Taken](), dict[str, list[Any]]()
        for tenant, share in shares.items():
            after = self._share(tenant, share, taken)
            if after is not None:
                behind[tenant] = after
        taken.sort(key=lambda one: (claim_of(one.lane), one.number))
        return taken, {"lane": self.lane, "next": self.next, "behind": behind}, bool(behind)

    def _share(self, tenant: str, rows: int, taken: list[Taken]) -> list[Any] | None:
        """Take the first rows of a tenant; where the next ones are, if there are any."""
        queue = self._queues[tenant]
        skip = queue.skip
        for one in queue.waiting:
            end = min(one.part.rows, skip + rows)
            if end > skip:
                taken.append(Taken(one.lane, one.number, one.part, skip, end))
            rows -= end - skip
            if end < one.part.rows:
                return [one.lane, one.number, end]
            skip = 0
        return None

    def commit(self, offset: Mapping[str, Any]) -> int:
        """Forget what an offset covers; returns how many rows that were."""
        before = self.rows
        for tenant in list(self._queues):
            queue = self._queues[tenant]
            while queue.waiting:
                one = queue.waiting[0]
                covered = _covered_rows(offset, tenant, one.lane, one.number, one.part.rows)
                if covered > queue.skip:
                    self._drop(queue, covered - queue.skip)
                if not queue.waiting or queue.waiting[0] is one:
                    break
            if not queue.waiting:
                del self._queues[tenant]
        return before - self.rows


def _covered(offset: Mapping[str, Any], part: Part, file: PushFile) -> int:
    return _covered_rows(offset, part.tenant, file.lane, file.number, part.rows)


def _covered_rows(offset: Mapping[str, Any], tenant: str, lane: str, number: int, rows: int) -> int:
    """How many of a tenant's rows in a file were taken."""
    claim, following, row = place_of(offset["behind"].get(tenant, [offset["lane"], offset["next"], 0]))
    if (claim_of(lane), number) == (claim, following):
        return min(row, rows)
    return rows if (claim_of(lane), number) < (claim, following) else 0


def place_of(place: Iterable[Any]) -> Place:
    """A place that can be compared."""
    lane, number, row = place
    return claim_of(lane), int(number), int(row)


def first_of(offset: Mapping[str, Any]) -> tuple[str, int]:
    """The first file that an offset does not cover as a whole."""
    places = [(offset["lane"], offset["next"], 0), *offset["behind"].values()]
    lane, number, _ = min(places, key=place_of)
    return str(lane), int(number)
