"""The data path, compiled: producers with skew buffers, connections and consumers, in ticks.

In each tick every producer fills its buffer and drains it into the connections that have room, then
every consumer polls its connections in turn and works until the tick is over. A connection holds
far more than a tick of work, so dividing time into ticks starves no consumer. A tuple is a number:
its bin and its serial number among the tuples of its producer and bin; an ack is a negative number
in the same queue, behind what was sent before it (FLUX-E13).

Law: consumers see the tuples of a producer and bin in the order of their serials, each once. It is
counted (`faults`) in every run, not only in tests.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from headgate.compiled import bare

FLUX, EXCHANGE, RIVER = 0, 1, 2
BIN_BITS = 20
BIN_MASK = (1 << BIN_BITS) - 1
NONE = -1
_part = partial(bare, inline="always")


@_part
def _draw_bin(a, keys):  # type: ignore[no-untyped-def]
    size = len(a.keep)
    x = keys.random() * size
    i = min(int(x), size - 1)
    return i if x - i < a.keep[i] else a.other[i]


@_part
def _around(place, slots):  # type: ignore[no-untyped-def]
    """A position in a ring, from one below twice its size; without a division, which would be slow."""
    return place - slots if place >= slots else place


@_part
def _send(a, p, s, b):  # type: ignore[no-untyped-def]
    at = _around(a.ring_head[p, s] + a.ring_used[p, s], a.ring.shape[2])
    a.ring[p, s, at] = (np.int64(a.sent[p, b]) << BIN_BITS) | b
    a.sent[p, b] += 1
    a.ring_used[p, s] += 1
    a.ring_data[p, s] += 1


@_part
def _enlist(a, p, b):  # type: ignore[no-untyped-def]
    s = a.route[b]
    a.listed[p, b] = True
    a.after[p, b] = NONE
    if a.first[p, s] == NONE:
        a.first[p, s] = b
    else:
        a.after[p, a.last[p, s]] = b
    a.last[p, s] = b


@_part
def _drain_buffer(a, p, costs):  # type: ignore[no-untyped-def]
    moved = 0
    for s in range(a.clock.shape[0]):
        while a.ring_data[p, s] < costs.connection and a.first[p, s] != NONE:
            b = a.first[p, s]
            a.first[p, s] = a.after[p, b]
            a.listed[p, b] = False
            _send(a, p, s, b)
            a.buffer[p, b] -= 1
            a.buffer_total[p] -= 1
            moved += 1
            if a.buffer[p, b] > 0:
                _enlist(a, p, b)
    return moved


@_part
def _produce_flux(a, p, costs, keys):  # type: ignore[no-untyped-def]
    made = 0
    while True:
        before = made
        while a.buffer_total[p] < costs.buffer and made < costs.per_tick:
            b = _draw_bin(a, keys)
            a.buffer[p, b] += 1
            a.buffer_total[p] += 1
            made += 1
            if not a.listed[p, b] and not a.stalled[b]:
                _enlist(a, p, b)
        if _drain_buffer(a, p, costs) == 0 and made == before:
            break


@_part
def _produce_exchange(a, p, costs, keys):  # type: ignore[no-untyped-def]
    for _ in range(costs.per_tick):
        if a.blocked[p] == NONE:
            a.blocked[p] = _draw_bin(a, keys)
        b = a.blocked[p]
        s = a.route[b]
        if a.ring_data[p, s] >= costs.connection:
            break
        _send(a, p, s, b)
        a.blocked[p] = NONE


@_part
def _produce_river(a, p, costs, keys):  # type: ignore[no-untyped-def]
    sites = a.clock.shape[0]
    room = 0
    for s in range(sites):
        room += costs.connection - a.ring_data[p, s]
    for _ in range(costs.per_tick):
        if room == 0:
            break
        b = _draw_bin(a, keys)
        pick = keys.random() * room
        s = 0
        pick -= costs.connection - a.ring_data[p, s]
        while pick >= 0 and s < sites - 1:
            s += 1
            pick -= costs.connection - a.ring_data[p, s]
        _send(a, p, s, b)
        room -= 1


@_part
def _note(a, at, latency):  # type: ignore[no-untyped-def]
    second = min(int(at), a.per_second.shape[0] - 1)
    a.per_second[second] += 1
    a.latency[second] += latency


@_part
def _service(a, s, costs, times):  # type: ignore[no-untyped-def]
    spent = costs.overhead + costs.service + costs.spread * times.standard_normal()
    return max(spent, 0.0) / a.speed[s]


@_part
def _enter(a, p, s, entry, costs):  # type: ignore[no-untyped-def]
    """Check a tuple's serial number where it enters the consumer; RiverDQ guarantees no order."""
    b = entry & BIN_MASK
    serial = entry >> BIN_BITS
    if costs.mode != RIVER and a.seen[p, b] != serial:
        a.faults[0] += 1
    a.seen[p, b] += 1
    if a.traced[0] < a.trace.shape[0]:
        row = a.trace[a.traced[0]]
        row[0], row[1], row[2], row[3] = p, s, b, serial
        a.traced[0] += 1
    return b


@_part
def _work(a, s, b, came, costs, times):  # type: ignore[no-untyped-def]
    """Process a tuple, or spool it if its bin is on disk."""
    if a.on_disk[b]:
        a.clock[s] += costs.spool
        a.spooled[b] += 1
        a.spooled_at[b] += came
    else:
        if a.spooled[b] > 0:
            a.faults[0] += 1  # it would overtake the tuples that wait
        _process(a, s, b, came, costs, times)


@_part
def _process(a, s, b, came, costs, times):  # type: ignore[no-untyped-def]
    a.clock[s] += _service(a, s, costs, times)
    a.counts[b] += 1
    a.processed[b] += 1
    _note(a, a.clock[s], a.clock[s] - came)


@_part
def _process_run(a, s, costs, times):  # type: ignore[no-untyped-def]
    a.run_left[s] -= 1
    _process(a, s, a.run_bin[s], a.run_came[s], costs, times)


@_part
def _ack(a, b):  # type: ignore[no-untyped-def]
    a.acks[b] += 1
    if a.acks[b] == a.buffer.shape[0]:
        a.acks[b] = 0
        a.ready[b] = True
        return True
    return False


@_part
def _next_entry(a, s):  # type: ignore[no-untyped-def]
    """Poll the connections in turn; return the first producer that has sent something, or NONE."""
    producers = a.buffer.shape[0]
    for step in range(producers):
        p = _around(a.poll[s] + step, producers)
        if a.ring_used[p, s] > 0:
            a.poll[s] = _around(p + 1, producers)
            return p
    return NONE


@_part
def _take(a, p, s):  # type: ignore[no-untyped-def]
    entry = a.ring[p, s, a.ring_head[p, s]]
    a.ring_head[p, s] = _around(a.ring_head[p, s] + 1, a.ring.shape[2])
    a.ring_used[p, s] -= 1
    if entry >= 0:
        a.ring_data[p, s] -= 1
    return entry


@_part
def _consume(a, s, end, costs, times):  # type: ignore[no-untyped-def]
    acknowledged = False
    while a.clock[s] < end:
        if a.run_left[s] > 0:
            _process_run(a, s, costs, times)
            continue
        if a.held_used[s] > 0:
            at = a.held_head[s]
            a.held_head[s] = (at + 1) % a.held.shape[1]
            a.held_used[s] -= 1
            _work(a, s, a.held[s, at] & BIN_MASK, a.held_at[s, at], costs, times)
            continue
        p = _next_entry(a, s)
        if p == NONE:
            a.idle[s] += end - a.clock[s]
            a.clock[s] = end
            break
        entry = _take(a, p, s)
        if entry < 0:
            acknowledged |= _ack(a, -entry - 1)
        else:
            b = _enter(a, p, s, entry, costs)
            _work(a, s, b, a.clock[s], costs, times)
    return acknowledged


@bare
def advance(a, costs, keys, times, tick, until):  # type: ignore[no-untyped-def]
    """Run ticks up to `until`, or until a bin has all its acks; return the tick that was reached."""
    while tick < until:
        for p in range(a.buffer.shape[0]):
            if costs.mode == FLUX:
                _produce_flux(a, p, costs, keys)
            elif costs.mode == EXCHANGE:
                _produce_exchange(a, p, costs, keys)
            else:
                _produce_river(a, p, costs, keys)
        tick += 1
        acknowledged = False
        for s in range(a.clock.shape[0]):
            acknowledged |= _consume(a, s, tick * costs.tick, costs, times)
        if acknowledged:
            break
    return tick


@bare
def pause(a, b, s):  # type: ignore[no-untyped-def]
    """Every producer stops sending bin `b`, and sends an ack to `s` behind the tuples that it has sent."""
    a.stalled[b] = True
    slots = a.ring.shape[2]
    for p in range(a.buffer.shape[0]):
        if a.listed[p, b]:
            _unlist(a, p, b, s)
        a.ring[p, s, (a.ring_head[p, s] + a.ring_used[p, s]) % slots] = -(b + 1)
        a.ring_used[p, s] += 1


@_part
def _unlist(a, p, b, s):  # type: ignore[no-untyped-def]
    a.listed[p, b] = False
    at, before = a.first[p, s], NONE
    while at != b:
        before, at = at, a.after[p, at]
    if before == NONE:
        a.first[p, s] = a.after[p, b]
    else:
        a.after[p, before] = a.after[p, b]
    if a.last[p, s] == b:
        a.last[p, s] = before


@bare
def restart(a, b, s):  # type: ignore[no-untyped-def]
    """Every producer sends bin `b` to `s` from now on, beginning with the tuples that waited."""
    a.route[b] = s
    a.stalled[b] = False
    for p in range(a.buffer.shape[0]):
        if a.buffer[p, b] > 0:
            _enlist(a, p, b)


@bare
def drain(a, costs, s, now):  # type: ignore[no-untyped-def]
    """Move all that is in flight to `s` into its own buffer; return whether a bin got its last ack."""
    acknowledged = False
    slots = a.held.shape[1]
    for p in range(a.buffer.shape[0]):
        while a.ring_used[p, s] > 0:
            if a.ring[p, s, a.ring_head[p, s]] >= 0 and a.held_used[s] == slots:
                break
            entry = _take(a, p, s)
            if entry < 0:
                acknowledged |= _ack(a, -entry - 1)
                continue
            _enter(a, p, s, entry, costs)
            at = (a.held_head[s] + a.held_used[s]) % slots
            a.held[s, at] = entry
            a.held_at[s, at] = now
            a.held_used[s] += 1
    return acknowledged


@bare
def settle(a, costs, s, b, times):  # type: ignore[no-untyped-def]
    """Process the tuples of bin `b` that `s` holds at once, before the bin leaves."""
    slots = a.held.shape[1]
    kept = 0
    used = a.held_used[s]
    for i in range(used):
        at = (a.held_head[s] + i) % slots
        entry, came = a.held[s, at], a.held_at[s, at]
        if entry & BIN_MASK == b:
            _work(a, s, b, came, costs, times)
        else:
            to = (a.held_head[s] + kept) % slots
            a.held[s, to], a.held_at[s, to] = entry, came
            kept += 1
    a.held_used[s] = kept


@bare
def finish_run(a, costs, s, times):  # type: ignore[no-untyped-def]
    """Process at once the rest of the waiting tuples of the bin that came back last."""
    while a.run_left[s] > 0:
        _process_run(a, s, costs, times)
