# mypy: allow-untyped-defs, allow-untyped-calls
"""Offline algorithms that fill servers type by type: MQP, the single-source algorithm, OffRand. Compiled.

Each returns (type, server, number) of its steps and how many queries of each type are left without a place.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled, inlined


@inlined
def take(steps, number, left, room, cost, t, j):
    """Put as many queries of a type on a server as fit, and note the step if there are any; return the steps and their number."""
    some = min(left[t], np.int64(room[j] / cost[t] * (1 + 1e-12)))
    if some > 0:
        if number == steps.shape[0]:
            steps = np.concatenate((steps, np.empty_like(steps)))
        steps[number, 0], steps[number, 1], steps[number, 2] = t, j, some
        number += 1
        left[t] -= some
        room[j] -= some * cost[t]
    return steps, number


@inlined
def columns(steps, number, left):
    """Return types, servers and numbers of the steps, and what is left."""
    return steps[:number, 0].copy(), steps[:number, 1].copy(), steps[:number, 2].copy(), left


@compiled
def pack(order, count, cost, rooms):
    """MQP (MICE-13): one server after another takes the types with most queries until it is full; the last one is cut.

    The target theta of Eq. 2 is negative at the paper's defaults, so servers are saturated, as the proof of Lemma 3 says
    (MICE-E5). The last servers may stay empty: the limit is an upper one.
    """
    left, room = count.copy(), rooms.copy()
    servers = rooms.shape[0]
    steps, number = np.empty((order.shape[0] + servers + 1, 3), np.int64), 0
    j = 0
    for t in order:
        at = j
        while left[t] > 0 and at < servers:
            steps, number = take(steps, number, left, room, cost, t, at)
            if left[t] > 0:
                at += 1
        while j < servers and room[j] <= 0:
            j += 1
    return columns(steps, number, left)


@compiled
def single_source(order, count, cost, rooms):
    """The paper's Figure 1 (MICE-16): the server with most room takes the source of largest rate, as much as fits.

    For queries of one source. At most m + k rounds where queries are equal.
    """
    left, room = count.copy(), rooms.copy()
    steps, number = np.empty((order.shape[0] + rooms.shape[0] + 1, 3), np.int64), 0
    for t in order:
        while left[t] > 0:
            j = np.argmax(room)
            before = number
            steps, number = take(steps, number, left, room, cost, t, j)
            if number == before:
                break
    return columns(steps, number, left)


@compiled
def scatter(count, cost, rooms, chance):
    """OffRand (MICE-17): a type and a server at random, until the type is out or the server is full; again.

    ``chance`` holds numbers in [0, 1), used round and round.
    """
    left, room = count.copy(), rooms.copy()
    types, servers = np.arange(count.shape[0]), np.arange(rooms.shape[0])
    kinds, open_servers, used = types.shape[0], servers.shape[0], 0
    steps, number = np.empty((kinds + open_servers + 1, 3), np.int64), 0
    while kinds > 0 and open_servers > 0:
        x = np.int64(chance[used % chance.shape[0]] * kinds)
        y = np.int64(chance[(used + 1) % chance.shape[0]] * open_servers)
        used += 2
        t, j = types[x], servers[y]
        steps, number = take(steps, number, left, room, cost, t, j)
        if left[t] == 0:
            kinds -= 1
            types[x] = types[kinds]
        else:
            open_servers -= 1
            servers[y] = servers[open_servers]
    return columns(steps, number, left)
