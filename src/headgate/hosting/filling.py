# mypy: allow-untyped-defs, allow-untyped-calls
"""Offline algorithms that fill servers type by type: MQP, the single-source algorithm, OffRand. Compiled.

Each returns (type, server, number) of its steps and how many queries of each type are left without a place.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled, inlined


@inlined
def fitting(left, cost, room):
    """Return how many queries of a type go into a room."""
    return min(left, np.int64(room / cost * (1 + 1e-12)))


@compiled
def pack(order, count, cost, rooms):
    """MQP (MICE-13): one server after another takes the types with most queries until it is full; the last one is cut.

    The target theta of Eq. 2 is negative at the paper's defaults, so servers are saturated, as the proof of Lemma 3 says
    (MICE-E5). The last servers may stay empty: the limit is an upper one.
    """
    left, room = count.copy(), rooms.copy()
    steps = 0
    kinds, servers = order.shape[0], rooms.shape[0]
    out = np.empty((kinds + servers + 1, 3), np.int64)
    j = 0
    for t in order:
        at = j
        while left[t] > 0 and at < servers:
            number = fitting(left[t], cost[t], room[at])
            if number > 0:
                if steps == out.shape[0]:
                    out = np.concatenate((out, np.empty_like(out)))
                out[steps, 0], out[steps, 1], out[steps, 2] = t, at, number
                steps += 1
                left[t] -= number
                room[at] -= number * cost[t]
            if left[t] > 0:
                at += 1
        while j < servers and room[j] <= 0:
            j += 1
    return out[:steps, 0].copy(), out[:steps, 1].copy(), out[:steps, 2].copy(), left


@compiled
def single_source(order, count, cost, rooms):
    """The paper's Figure 1 (MICE-16): the server with most room takes the source of largest rate, as much as fits.

    For queries of one source. At most m + k rounds where queries are equal.
    """
    left, room = count.copy(), rooms.copy()
    steps = 0
    out = np.empty((order.shape[0] + rooms.shape[0] + 1, 3), np.int64)
    for t in order:
        while left[t] > 0:
            j = np.argmax(room)
            number = fitting(left[t], cost[t], room[j])
            if number == 0:
                break
            if steps == out.shape[0]:
                out = np.concatenate((out, np.empty_like(out)))
            out[steps, 0], out[steps, 1], out[steps, 2] = t, j, number
            steps += 1
            left[t] -= number
            room[j] -= number * cost[t]
    return out[:steps, 0].copy(), out[:steps, 1].copy(), out[:steps, 2].copy(), left


@compiled
def scatter(count, cost, rooms, chance):
    """OffRand (MICE-17): a type and a server at random, until the type is out or the server is full; again.

    ``chance`` holds numbers in [0, 1), used round and round.
    """
    left, room = count.copy(), rooms.copy()
    types, servers = np.arange(count.shape[0]), np.arange(rooms.shape[0])
    kinds, open_servers, steps, used = types.shape[0], servers.shape[0], 0, 0
    out = np.empty((kinds + open_servers + 1, 3), np.int64)
    while kinds > 0 and open_servers > 0:
        x = np.int64(chance[used % chance.shape[0]] * kinds)
        y = np.int64(chance[(used + 1) % chance.shape[0]] * open_servers)
        used += 2
        t, j = types[x], servers[y]
        number = fitting(left[t], cost[t], room[j])
        if number > 0:
            if steps == out.shape[0]:
                out = np.concatenate((out, np.empty_like(out)))
            out[steps, 0], out[steps, 1], out[steps, 2] = t, j, number
            steps += 1
            left[t] -= number
            room[j] -= number * cost[t]
        if left[t] == 0:
            kinds -= 1
            types[x] = types[kinds]
        else:
            open_servers -= 1
            servers[y] = servers[open_servers]
    return out[:steps, 0].copy(), out[:steps, 1].copy(), out[:steps, 2].copy(), left
