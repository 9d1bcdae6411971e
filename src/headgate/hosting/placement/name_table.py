"""Numbers for names: sources, queries and query types that come and go, and arrays that grow with them.

A query's slot is used again after the query leaves. Query types that no hosted query has are dropped
once they outnumber the others, so memory grows with what is hosted now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headgate.hosting.placement.reference_counts import enlarged
from headgate.hosting.placement.state import PlacementState

_UNUSED_TYPES_KEPT = 1024


class NameTable:
    """The number of every source, query and query type. The first ``reserved_types`` types are never dropped."""

    def __init__(self) -> None:
        self.sources: dict[str, int] = {}
        self.slots: dict[str, int] = {}
        self.types: dict[tuple[int, ...], int] = {}
        self.reserved_types = 0
        self.max_sources = 1
        self._free_slots: list[int] = []
        self._names: list[str] = []

    def name(self, slot: int) -> str:
        """Return the query that has a slot."""
        return self._names[slot]

    def with_source(self, state: PlacementState, name: str, rate: float) -> PlacementState:
        """Return the state with one more source."""
        number = self.sources[name] = len(self.sources)
        rates = grown(state.rate, number + 1)
        rates[number] = rate
        streams = enlarged(state.streams, rows=rates.shape[0])
        by_source = {
            field: grown(getattr(state, field), number + 1)
            for field in ("readers", "rare_readers", "rare_known", "group_reads")
        }
        return state._replace(rate=rates, streams=streams, **by_source)

    def with_type(self, state: PlacementState, sources: Sequence[int]) -> tuple[PlacementState, int]:
        """Return the state with a set of sources as a query type, and the number of that type."""
        key = tuple(sources)
        known = self.types.get(key)
        if known is not None:
            return state, known
        query_type = self.types[key] = len(self.types)
        self.max_sources = max(self.max_sources, len(key))
        begin = int(state.type_start[query_type])
        start, source = grown(state.type_start, query_type + 2), grown(state.type_source, begin + len(key))
        source[begin : begin + len(key)] = key
        start[query_type + 1] = begin + len(key)
        rows = state.hosted_types.start.shape[0]
        if rows:
            state = state._replace(hosted_types=enlarged(state.hosted_types, rows=max(start.shape[0], rows)))
        if start is not state.type_start or source is not state.type_source:
            state = state._replace(type_start=start, type_source=source)
        return state, query_type

    def with_slot(
        self, state: PlacementState, query: str, query_type: int, cost: float
    ) -> tuple[PlacementState, int]:
        """Return the state with a slot for a query that is not hosted yet, and that slot."""
        state, slots = self.with_slots(state, [query], [query_type], [cost])
        return state, int(slots[0])

    def with_slots(
        self, state: PlacementState, queries: Sequence[str], types: Sequence[int], costs: Sequence[float]
    ) -> tuple[PlacementState, Any]:
        """Return the state with slots for queries that are not hosted yet, and these slots."""
        slots = list[int]()
        for query in queries:
            if self._free_slots:
                slot = self._free_slots.pop()
                self._names[slot] = query
            else:
                slot = len(self._names)
                self._names.append(query)
            self.slots[query] = slot
            slots.append(slot)
        size = len(self._names)
        if state.type_of.shape[0] < size:
            state = state._replace(
                type_of=grown(state.type_of, size),
                cost=grown(state.cost, size),
                server_of=grown(state.server_of, size, fill=-1),
            )
        taken = np.array(slots, np.int64)
        state.type_of[taken], state.cost[taken] = types, costs
        return state, taken

    def free_slot(self, query: str) -> None:
        """Free the slot of a query that has left."""
        self._free_slots.append(self.slots.pop(query))

    def without_unused_types(self, state: PlacementState) -> PlacementState:
        """Return the state without the query types that no hosted query has, if these are many."""
        if len(self.types) <= _UNUSED_TYPES_KEPT + self.reserved_types + 2 * len(self.slots):
            return state
        slots = list(self.slots.values())
        in_use = set(state.type_of[slots].tolist()) | set(range(self.reserved_types))
        kept = [(key, old) for key, old in self.types.items() if old in in_use]
        old_numbers = [old for _, old in kept]
        new_number = np.zeros(len(self.types), np.int64)
        new_number[old_numbers] = np.arange(len(kept))
        self.types = {key: new for new, (key, _) in enumerate(kept)}
        starts = np.cumsum([0, *(len(key) for key in self.types)], dtype=np.int64)
        sources = np.array([s for key in self.types for s in key], dtype=np.int64)
        state.type_of[slots] = new_number[state.type_of[slots]]
        if state.hosted_types.start.shape[0]:
            rows = {
                field: np.append(
                    getattr(state.hosted_types, field)[old_numbers],
                    getattr(state.hosted_types, field)[:1] * 0,
                )
                for field in ("start", "size", "capacity")
            }
            state = state._replace(hosted_types=state.hosted_types._replace(**rows))
        return state._replace(type_start=starts, type_source=sources)


def grown(array: Any, size: int, *, fill: int = 0) -> Any:
    """Return an array of at least that size: the array itself, or a copy of at least twice the length."""
    if array.shape[0] >= size:
        return array
    longer = np.full((max(size, 2 * array.shape[0]), *array.shape[1:]), fill, array.dtype)
    longer[: array.shape[0]] = array
    return longer
