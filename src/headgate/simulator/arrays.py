"""The state of the data path as arrays, and its parameters: what the kernels read and change."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

Array = npt.NDArray[Any]


class Arrays(NamedTuple):
    """The mutable state of the data path. Axes, in order: p is a producer, s a consumer, b a bin."""

    ring: Array  # (p, s, slots) tuples and acks on the way
    ring_head: Array  # (p, s)
    ring_used: Array  # (p, s) entries
    ring_data: Array  # (p, s) entries that are tuples
    buffer: Array  # (p, b) tuples in the skew buffer
    buffer_total: Array  # (p)
    first: Array  # (p, s) the bins with tuples for s, as a linked list in the order of their turns
    last: Array  # (p, s)
    after: Array  # (p, b)
    listed: Array  # (p, b)
    sent: Array  # (p, b) serial number of the next tuple sent
    seen: Array  # (p, b) serial number of the next tuple that enters a consumer
    blocked: Array  # (p) the tuple that an Exchange producer waits with
    route: Array  # (b)
    stalled: Array  # (b)
    on_disk: Array  # (b)
    counts: Array  # (b) processed in the present window
    processed: Array  # (b)
    spooled: Array  # (b) tuples waiting for a bin on disk
    spooled_at: Array  # (b) the sum of the times at which they came
    acks: Array  # (b)
    run_bin: Array  # (s) the bin that came back from disk last
    run_left: Array  # (s) how much of its waiting input is still to be processed
    run_came: Array  # (s) when that came, on average, so that sums of latencies are exact
    clock: Array  # (s) the time up to which s has worked
    idle: Array  # (s)
    speed: Array  # (s)
    poll: Array  # (s) the producer whose turn it is
    held: Array  # (s, slots) tuples taken out of the connections for a move
    held_at: Array  # (s, slots)
    held_head: Array  # (s)
    held_used: Array  # (s)
    per_second: Array  # (t) tuples processed
    latency: Array  # (t) sum of their times since they entered the consumer
    keep: Array  # (b) alias table
    other: Array  # (b)
    ready: Array  # (b) all acks have come
    faults: Array  # (1)
    trace: Array  # (n, 4) producer, consumer, bin, serial; n is 0 in long runs
    traced: Array  # (1)


class Costs(NamedTuple):
    """The parameters of the cluster that the kernels use."""

    mode: int
    connection: int
    buffer: int
    per_tick: int
    tick: float
    service: float
    spread: float
    overhead: float
    spool: float
