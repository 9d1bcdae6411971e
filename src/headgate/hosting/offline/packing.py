# mypy: allow-untyped-defs, allow-untyped-calls
"""Offline algorithms that fill servers type by type: MQP, the single-source algorithm, OffRand. Compiled.

Each returns its steps as three arrays (query type, server, number of queries), and how many queries of each
type are left over. ``t`` stands for a query type and ``j`` for a server.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled, inlined


@inlined
def fill_server(steps, number, left, room, cost, t, j):
    """Put as many queries of a type on a server as fit; return all steps so far, and their number."""
    fitting = min(left[t], np.int64(room[j] / cost[t] * (1 + 1e-12)))
    if fitting > 0:
        if number == steps.shape[0]:
            steps = np.concatenate((steps, np.empty_like(steps)))
        steps[number, 0], steps[number, 1], steps[number, 2] = t, j, fitting
        number += 1
        left[t] -= fitting
        room[j] -= fitting * cost[t]
    return steps, number


@inlined
def step_arrays(steps, number, left):
    """Return types, servers and numbers of the steps, and what is left over."""
    return steps[:number, 0].copy(), steps[:number, 1].copy(), steps[:number, 2].copy(), left


@compiled
def pack_types(order, count, cost, limits):
    """MQP (MICE-13): one server after another takes the types with the most queries until it is full.

    The last type that a server takes is split. The target theta of Eq. 2 is negative at the paper's defaults, so
    servers are filled to their limit, as the proof of Lemma 3 says (MICE-E5). The last servers may stay empty,
    since the limit is only an upper one.
    """
    left, room = count.copy(), limits.copy()
    servers = limits.shape[0]
    steps, number = np.empty((order.shape[0] + servers + 1, 3), np.int64), 0
    j = 0
    for t in order:
        at = j
        while left[t] > 0 and at < servers:
            steps, number = fill_server(steps, number, left, room, cost, t, at)
            if left[t] > 0:
                at += 1
        while j < servers and room[j] <= 0:
            j += 1
    return step_arrays(steps, number, left)


@compiled
def single_source(order, count, cost, limits):
    """Figure 1 of the paper (MICE-16): the server with the most room takes the source of largest rate, as far as it fits.

    For queries of one source each. It takes at most m + k rounds if queries are equal.
    """
    left, room = count.copy(), limits.copy()
    steps, number = np.empty((order.shape[0] + limits.shape[0] + 1, 3), np.int64), 0
    for t in order:
        while left[t] > 0:
            j = np.argmax(room)
            before = number
            steps, number = fill_server(steps, number, left, room, cost, t, j)
            if number == before:
                break
    return step_arrays(steps, number, left)


@compiled
def scatter_types(count, cost, limits, chance):
    """OffRand (MICE-17): fill a random server with a random type until either is exhausted, and repeat.

    ``chance`` holds numbers in [0, 1); after the last the first is used again.
    """
    left, room = count.copy(), limits.copy()
    types, servers = np.arange(count.shape[0]), np.arange(limits.shape[0])
    open_types, open_servers, used = types.shape[0], servers.shape[0], 0
    steps, number = np.empty((open_types + open_servers + 1, 3), np.int64), 0
    while open_types > 0 and open_servers > 0:
        x = np.int64(chance[used % chance.shape[0]] * open_types)
        y = np.int64(chance[(used + 1) % chance.shape[0]] * open_servers)
        used += 2
        t, j = types[x], servers[y]
        steps, number = fill_server(steps, number, left, room, cost, t, j)
        if left[t] == 0:
            open_types -= 1
            types[x] = types[open_types]
        else:
            open_servers -= 1
            servers[y] = servers[open_servers]
    return step_arrays(steps, number, left)
