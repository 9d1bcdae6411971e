"""Refinement brings blocks together that repair leaves apart, and one budget is enough for both."""

from dataclasses import replace

import numpy as np

from headgate.hosting import DEFAULT_REPAIR, DEFAULT_RULE, Host, Replay, Workload
from headgate.hosting.mend import mend
from headgate.hosting.placement.state import MOVED_QUERIES, REFINEMENTS

BLOCKS, SOURCES, QUERIES, SERVERS = 60, 5, 66, 20
RATES = {f"s{i}": 1.0 for i in range(BLOCKS * SOURCES)}
READS = {f"q{i}": [f"s{SOURCES * (i % BLOCKS) + s}" for s in range(SOURCES)] for i in range(BLOCKS * QUERIES)}


def test_it_finds_what_repair_does_not() -> None:
    """Complete blocks, three to a server. Repair alone leaves some of them on two servers."""
    load, left = Workload.from_names(RATES, READS), dict[int, float]()
    for sample in (0, 512):
        left[sample] = 0.0
        for seed in range(3):
            replay = Replay(
                load,
                np.ones(SERVERS),
                DEFAULT_RULE,
                repair=replace(DEFAULT_REPAIR, sample=sample),
            )
            replay.arrive(np.random.default_rng(seed).permutation(load.queries))
            left[sample] += replay.replication - 1.0
            assert (replay.state.totals[REFINEMENTS] > 0) == (sample > 0)
            assert replay.state.totals[MOVED_QUERIES] <= DEFAULT_REPAIR.moves * load.queries
    assert left[512] < left[0]


def test_one_budget_is_for_both() -> None:
    host = Host(RATES, servers=SERVERS, rule="on-rand", draw=np.random.default_rng(1).random)
    host.place_many([(name, reads, 1.0) for name, reads in list(READS.items())[:600]])
    silent = 0
    for seed in range(400):
        before = host.status().traffic
        moves = mend(host, 10, examine=16, samples=3, seed=seed)
        assert sum(len(move.servers()) for move in moves) <= 10
        assert host.status().traffic <= before + 1e-9
        assert max(host.status().loads.values()) <= host.limit_of(0) * (1 + 1e-9)
        silent = 0 if moves else silent + 1
    assert silent > 20, "it still moves queries"
