"""The offline reference: placement as hypergraph partitioning, by Mt-KaHyPar.

Queries are vertices and sources are nets of weight w(s). Replication is 1 + connectivity / total rate, so the
partitioner minimises exactly our traffic. Queries of one type are combined into small lots, which keeps the
hypergraph small and large types divisible. Unlike the rest of the package this is not pure: the library has a
random state of its own, which ``seed`` sets.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from headgate.errors import required
from headgate.hosting.balance import SLACK
from headgate.hosting.offline.assignment import Assignment
from headgate.hosting.workload import Floats, Ints, Workload

LOTS_PER_SERVER = 50
"""A lot is at most this fraction of a server, so that lots do not prevent balance."""
_WEIGHT_SCALE = 1000


def partition(
    load: Workload, sizes: Floats, limits: Floats, *, seed: int = 1, threads: int = 1
) -> Assignment:
    """Return the placement within the limits that a multilevel partitioner finds."""
    mtkahypar = required("mtkahypar", "the hypergraph reference")
    k, types = sizes.shape[0], load.types
    if k == 1:
        return Assignment(
            load, sizes, limits, np.arange(len(types)), np.zeros(len(types), np.int64), types.count
        )
    query_type, number = split_into_lots(types.count, types.cost, float(limits.min()) / LOTS_PER_SERVER)
    # The weights of vertices and nets are integers: costs and rates are scaled unless they are integers already.
    scale = 1 if np.all(types.cost == np.rint(types.cost)) else _WEIGHT_SCALE / float(types.cost.mean())
    weight = np.maximum(1, np.rint(number * types.cost[query_type] * scale)).astype(np.int64)
    rates = (
        load.rates
        if np.all(load.rates == np.rint(load.rates))
        else load.rates * _WEIGHT_SCALE / load.rates.max()
    )
    pins, start = _pins(load, query_type)
    used = np.flatnonzero(np.diff(start) > 1)
    nets = [pins[start[s] : start[s + 1]].tolist() for s in used]
    partitioner = _partitioner(threads)
    mtkahypar.set_seed(seed)
    context = partitioner.context_from_preset(mtkahypar.PresetType.DEFAULT)
    context.logging = False
    imbalance = (
        float((limits * scale).min() / (weight.sum() / k) - 1) if np.all(limits == limits[0]) else 0.03
    )
    context.set_partitioning_parameters(k, max(imbalance, 0.0), mtkahypar.Objective.KM1)
    if np.any(limits != limits[0]):
        context.set_individual_target_block_weights(
            np.floor(limits * scale * (1 + SLACK)).astype(int).tolist()
        )
    net_weight = np.maximum(1, np.rint(rates[used])).astype(np.int64).tolist()
    graph = partitioner.create_hypergraph(
        context, query_type.shape[0], len(nets), nets, weight.tolist(), net_weight
    )
    block = np.array(graph.partition(context).get_partition(), np.int64)
    pair, at = np.unique(query_type * k + block, return_inverse=True)
    summed = np.bincount(at, weights=number).astype(np.int64)
    return Assignment(load, sizes, limits, pair // k, pair % k, summed)


@cache
def _partitioner(threads: int) -> Any:
    """Return the library, initialised once: it must not be initialised twice."""
    import mtkahypar

    return mtkahypar.initialize(threads)


def split_into_lots(count: Ints, cost: Floats, most: float) -> tuple[Ints, Ints]:
    """Split query types into lots of at most this cost; return the type and the number of queries of each lot.

    >>> [part.tolist() for part in split_into_lots(np.array([5, 1]), np.array([1.0, 1.0]), 2.0)]
    [[0, 0, 0, 1], [2, 2, 1, 1]]
    """
    each = np.maximum(1, np.floor(most / cost)).astype(np.int64)
    pieces = -(-count // each)
    query_type = np.repeat(np.arange(count.shape[0]), pieces)
    number = each[query_type]
    last = np.cumsum(pieces) - 1
    number[last] = count - (pieces - 1) * each
    return query_type, number


def _pins(load: Workload, query_type: Ints) -> tuple[Ints, Ints]:
    """Return the lots that read each source, source after source, and where each source's lots begin."""
    types = load.types
    lengths = np.diff(types.start)[query_type]
    begin = np.repeat(types.start[query_type] - (np.cumsum(lengths) - lengths), lengths)
    source = types.source[begin + np.arange(lengths.sum())]
    order = np.argsort(source, kind="stable")
    start = np.zeros(load.sources + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=load.sources), out=start[1:])
    return np.repeat(np.arange(query_type.shape[0]), lengths)[order], start
