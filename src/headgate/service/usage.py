"""What tenants use: measured in batches, added up over the last of them, and compared with limits.

State and results are counted by tenant where they are written (`manifest.StoredTable.owners`), so what a tenant has of
them is a sum over the manifests that are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from headgate.service.manifest import JOIN_ROWS, BatchManifest, StoredTable
from headgate.service.table_file import STATE, read_table
from headgate.service.tenant_use import TenantUse
from headgate.sql.deferred import waits
from headgate.storage.store import Store

PIECE_BYTES = 4_096
"""What a piece of state counts for itself: every commit names it."""
LAST_BATCHES = 100
"""Over how many batches the use of a tenant is added up."""
ROOM = 0.8
"""How much of its limit a tenant has left to it when queries are stopped because of their state."""
LOOK_AGAIN = 50
"""After how many batches state is looked at again that was within its limit."""


class Usage:
    """The use of all tenants, by their numbers."""

    def __init__(self, history: Sequence[BatchManifest]) -> None:
        self._history = history
        self._last: deque[Mapping[int, TenantUse]] = deque(maxlen=LAST_BATCHES)
        self._results: deque[tuple[int, dict[int, int]]] = deque()
        """By batch: the bytes of results of each tenant."""
        self._state: dict[int, int] = {}
        self._looked: dict[int, tuple[int, int]] = {}
        """By tenant: the batch when its state was looked at, and how much there seemed to be."""
        for manifest in history:
            self.add(manifest)

    def add(self, manifest: BatchManifest) -> None:
        """Count a batch; a batch that was counted already is not counted again."""
        if self._results and manifest.batch <= self._results[-1][0]:
            return
        self._last.append(manifest.usage)
        self._results.append((manifest.batch, _bytes_of(manifest.results.values())))
        first = self._history[0].batch if self._history else manifest.batch
        while self._results[0][0] < first:
            self._results.popleft()
        self._state = _bytes_of(manifest.pieces.values(), PIECE_BYTES)

    def of(self, tenant: int) -> TenantUse:
        """What the last batches took for a tenant; what waits is that of the last one."""
        total = TenantUse()
        for usage in list(self._last):
            total = total.plus(usage.get(tenant, TenantUse()))
        last = self._last[-1].get(tenant, TenantUse()) if self._last else TenantUse()
        return total._replace(waiting_rows=last.waiting_rows)

    @property
    def batches(self) -> int:
        """Over how many batches use is added up."""
        return len(self._last)

    @property
    def waiting(self) -> dict[int, int]:
        """By tenant: the rows that wait for it."""
        last = self._last[-1] if self._last else {}
        return {tenant: use.waiting_rows for tenant, use in last.items() if use.waiting_rows}

    def state_bytes(self, tenant: int) -> int:
        """What a tenant keeps of state."""
        return self._state.get(tenant, 0)

    def result_bytes(self, tenant: int) -> int:
        """What there is of a tenant's results."""
        return sum(sizes.get(tenant, 0) for _, sizes in list(self._results))

    def first_readable(self, tenant: int, limit: int) -> int:
        """The oldest batch of which a tenant can read results, if those from it on are within its limit; 0 if all are.
        The newest batch is always readable.
        """
        total = 0
        for number, (batch, sizes) in enumerate(reversed(list(self._results))):
            total += sizes.get(tenant, 0)
            if total > limit and number:
                return batch + 1
        return 0

    def above(self, limit_of: Callable[[int], int], batch: int) -> list[int]:
        """The tenants whose state seems to be above their limits. One that was looked at, and stayed, is looked at
        again when it has grown, or after some batches: what is written stays for a while when queries are gone.
        """
        found = list[int]()
        for tenant, size in self._state.items():
            if size > limit_of(tenant):
                when, then = self._looked.get(tenant, (-LOOK_AGAIN, 0))
                if batch - when >= LOOK_AGAIN or size > 1.1 * then:
                    self._looked[tenant] = (batch, size)
                    found.append(tenant)
        return found


def largest(
    manifest: BatchManifest, store: Store, tenant: int, owned: Callable[[int, int, int], bool], limit: int
) -> dict[int, str]:
    """The computations of a tenant with the most state, as many as are above its limit, and why they are stopped.
    `owned` tells whether a computation of a template is there, and the tenant's, and state of a batch is not out of date.
    """
    sizes = dict[int, float]()
    for (_, template, label), pieces in manifest.pieces.items():
        ids = np.zeros(0, np.int64)
        for piece in pieces if template != JOIN_ROWS else ():
            head = waits(label) and not piece.owners  # the rows that wait follow it
            if head or any(owner == tenant for owner, _ in piece.owners):
                table = read_table(store, STATE, piece)
                if not waits(label):
                    ids = table.column("id").to_numpy()
                elif b"ids" in (table.schema.metadata or {}):
                    ids = np.frombuffer(table.schema.metadata[b"ids"], np.int64)
                if head:
                    continue
                numbers, counts = np.unique(ids, return_counts=True)
                for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
                    if owned(number, template, piece.batch):
                        part = (piece.size + PIECE_BYTES) * count / max(1, len(ids))
                        sizes[number] = sizes.get(number, 0.0) + part
    total = sum(sizes.values())
    stopped = dict[int, str]()
    if total <= limit:
        return stopped
    left = total
    for number in sorted(sizes, key=lambda number: -sizes[number]):
        if left <= ROOM * limit:
            break
        left -= sizes[number]
        stopped[number] = (
            f"its tenant keeps {total:.0f} bytes of state, and {limit} is the limit (state_bytes); this query keeps "
            f"{sizes[number]:.0f} of them: shorten its window, group by less, or read fewer rows"
        )
    return stopped


def _bytes_of(tables: Iterable[Sequence[StoredTable]], each: int = 0) -> dict[int, int]:
    """The bytes of each tenant in some tables; a table itself takes `each`, from whoever has most of it. One that is
    in several places counts once.
    """
    sizes, seen = dict[int, int](), set[tuple[str, int]]()
    for stored in tables:
        for table in stored:
            if table.owners and (table.file, table.at) in seen:
                continue
            seen.add((table.file, table.at))
            for at, (owner, size) in enumerate(table.owners):
                sizes[owner] = sizes.get(owner, 0) + size + (0 if at else each)
    return sizes
