"""The offline reference: placement as hypergraph partitioning, by Mt-KaHyPar.

Queries are vertices, sources nets of weight w(s); replication = 1 + connectivity / total rate, so the partitioner
minimises exactly our traffic. Queries of one type are taken together in small lots, which keeps the hypergraph small and
leaves large types divisible. Not pure to the last bit: the library has a random state of its own, set by ``seed``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from headgate.errors import required
from headgate.hosting.balance import SLACK
from headgate.hosting.offline import Assignment
from headgate.hosting.workload import Floats, Ints, Workload

LOTS_PER_SERVER = 50
"""A lot is at most this part of a server, so that lots do not stand in the way of balance."""
_GRAIN = 1000


def partition(load: Workload, sizes: Floats, rooms: Floats, *, seed: int = 1, threads: int = 1) -> Assignment:
    """Return a placement within ``rooms`` that a multilevel partitioner finds."""
    mtkahypar = required("mtkahypar", "the hypergraph reference")
    k, types = sizes.shape[0], load.types
    if k == 1:
        number = np.arange(len(types))
        return Assignment(load, sizes, rooms, number, np.zeros(len(types), np.int64), types.count)
    kind, number = lots(types.count, types.cost, float(rooms.min()) / LOTS_PER_SERVER)
    # Vertices and nets have whole weights: costs and rates are scaled unless they are whole already.
    grain = 1 if np.all(types.cost == np.rint(types.cost)) else _GRAIN / float(types.cost.mean())
    weight = np.maximum(1, np.rint(number * types.cost[kind] * grain)).astype(np.int64)
    rates = (
        load.rates if np.all(load.rates == np.rint(load.rates)) else load.rates * _GRAIN / load.rates.max()
    )
    pins, start = _pins(load, kind)
    used = np.flatnonzero(np.diff(start) > 1)
    nets = [pins[start[s] : start[s + 1]].tolist() for s in used]
    tool = _tool(threads)
    mtkahypar.set_seed(seed)
    context = tool.context_from_preset(mtkahypar.PresetType.DEFAULT)
    context.logging = False
    allowed = float((rooms * grain).min() / (weight.sum() / k) - 1) if np.all(rooms == rooms[0]) else 0.03
    context.set_partitioning_parameters(k, max(allowed, 0.0), mtkahypar.Objective.KM1)
    if np.any(rooms != rooms[0]):
        context.set_individual_target_block_weights(
            np.floor(rooms * grain * (1 + SLACK)).astype(int).tolist()
        )
    net_weight = np.maximum(1, np.rint(rates[used])).astype(np.int64).tolist()
    graph = tool.create_hypergraph(context, kind.shape[0], len(nets), nets, weight.tolist(), net_weight)
    block = np.array(graph.partition(context).get_partition(), np.int64)
    pair, at = np.unique(kind * k + block, return_inverse=True)
    summed = np.bincount(at, weights=number).astype(np.int64)
    return Assignment(load, sizes, rooms, pair // k, pair % k, summed)


@cache
def _tool(threads: int) -> Any:
    """Return the library, started once: it complains of a second time."""
    import mtkahypar

    return mtkahypar.initialize(threads)


def lots(count: Ints, cost: Floats, most: float) -> tuple[Ints, Ints]:
    """Cut types into lots of at most this cost: the type and the number of queries of each.

    >>> [part.tolist() for part in lots(np.array([5, 1]), np.array([1.0, 1.0]), 2.0)]
    [[0, 0, 0, 1], [2, 2, 1, 1]]
    """
    each = np.maximum(1, np.floor(most / cost)).astype(np.int64)
    pieces = -(-count // each)
    kind = np.repeat(np.arange(count.shape[0]), pieces)
    number = each[kind]
    last = np.cumsum(pieces) - 1
    number[last] = count - (pieces - 1) * each
    return kind, number


def _pins(load: Workload, kind: Ints) -> tuple[Ints, Ints]:
    """Return the lots of every source, one source after another."""
    types = load.types
    lengths = np.diff(types.start)[kind]
    begin = np.repeat(types.start[kind] - (np.cumsum(lengths) - lengths), lengths)
    source = types.source[begin + np.arange(lengths.sum())]
    order = np.argsort(source, kind="stable")
    start = np.zeros(load.sources + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=load.sources), out=start[1:])
    return np.repeat(np.arange(kind.shape[0]), lengths)[order], start
