"""Claims that small instances settle exactly: MX-19..25."""

from __future__ import annotations

import math

import numpy as np

from headgate.hosting import NO_REPAIR, Balance, Host, Workload
from headgate.hosting.offline.algorithms import offline_limits, solve
from headgate.hosting.offline.assignment import Assignment
from headgate.hosting.offline.bounds import expected_random_traffic
from headgate.hosting.offline.exact import optimum
from headgate_lab.papers.claims import Claim
from headgate_lab.papers.mice.world import graph


def blocks(k: int, sources: int, queries: int) -> Workload:
    """Return k disjoint complete bipartite blocks, their queries one by one in turn (MICE-10)."""
    rates = {f"{b}.{s}": 1.0 for b in range(k) for s in range(sources)}
    reads = {f"{b}/{q}": [f"{b}.{s}" for s in range(sources)] for q in range(queries) for b in range(k)}
    return Workload.from_names(rates, reads)


def hosted(load: Workload, host: Host) -> Host:
    """Return the host with all queries of a workload, placed in their order."""
    names = [str(s) for s in range(load.sources)]
    for q in range(load.queries):
        host.place(str(q), [names[s] for s in load.source[load.start[q] : load.start[q + 1]]])
    return host


def numbered(load: Workload) -> dict[str, float]:
    """Return the rates of a workload by name."""
    return {str(s): float(rate) for s, rate in enumerate(load.rates)}


def at_random(load: Workload, k: int, runs: int) -> float:
    """Return the mean traffic of placing every query uniformly at random."""
    draw = np.random.default_rng(11)
    sizes = np.ones(k)
    return float(
        np.mean(
            [
                Assignment.from_servers(load, sizes, sizes, draw.integers(0, k, load.queries)).traffic
                for _ in range(runs)
            ]
        )
    )


def unit_claims() -> list[Claim]:
    """MX-19..25."""
    return [pure_random(), in_blocks(), example_1(), switch(), within_limits(), single_source(), bounds()]


def pure_random() -> Claim:
    """MX-19."""
    load = graph(10_000, seed=3)
    wanted, got = expected_random_traffic(load, 100), at_random(load, 100, 5)
    return Claim("MX-19", f"pure random placement, n=10K, k=100, m={load.sources}", wanted, got, "2%",
                 abs(got / wanted - 1) <= 0.02, "Eq. 1 beside the mean of 5 runs")  # fmt: skip


def in_blocks() -> Claim:
    """MX-20."""
    k, load = 10, blocks(10, 5, 30)
    m = float(load.sources)
    said = k * m * (1 - (1 - 1 / k) ** 30)
    host = hosted(load, Host(numbered(load), servers=k, rule="least-cost"))
    got = {
        "random": at_random(load, k, 20),
        "ic": solve(load, k, "ic").traffic,
        "least-cost": host.status().traffic,
    }
    ok = abs(got["random"] / said - 1) <= 0.05 and got["ic"] <= 2 * m and got["least-cost"] <= 2 * m
    return Claim("MX-20", "10 blocks of 5 sources and 30 queries, k=10", {"random": said, "ic": m, "least-cost": m}, got,
                 "5%; at most 2m", ok)  # fmt: skip


def example_1() -> Claim:
    """MX-21."""
    host = Host({"a": 1.0}, servers=10, rule="least-cost", balance=Balance(absolute=0))
    servers = {host.place(str(i), ["a"]).server for i in range(10)}
    return Claim("MX-21", "Example 1: k=10, nu=0.05, relative limit alone, 10 queries of one source", 10.0,
                 float(len(servers)), "exact", len(servers) == 10 and host.status().traffic == 10,
                 f"{host.status().fallbacks} of them by the least-filled fallback (MICE-E1)")  # fmt: skip


def switch() -> Claim:
    """MX-22."""
    limits = Balance()
    n = limits.crossover(100)
    meets = (
        limits.limit(n, 100) == n / 100 + 10 == 1.05 * n / 100
        and limits.limit(n + 100, 100) > (n + 100) / 100 + 10
    )
    return Claim("MX-22", "queries at which the relative limit takes over, alpha=10, nu=0.05, k=100", 20_000.0, n,
                 "exact", bool(n == 20_000 and meets))  # fmt: skip


def within_limits() -> Claim:
    """MX-23."""
    load, above, most = graph(2000, seed=5), 0, 0.0
    host = Host(numbered(load), servers=20, repair=NO_REPAIR)
    for q in range(load.queries):
        made = host.place(str(q), [str(s) for s in load.source[load.start[q] : load.start[q + 1]]])
        if q % 3 == 2:
            host.remove(str(q - 1))
        above += made.load > made.limit * (1 + 1e-9)
        most = max(most, made.load / made.limit)
    return Claim("MX-23", "receiver's load against its limit at each of 2,000 placements with departures", "never above",
                 {"above": float(above), "fallbacks": float(host.status().fallbacks), "largest load/limit": most},
                 "exact", above == 0 and host.status().fallbacks == 0)  # fmt: skip


def single_source() -> Claim:
    """MX-24."""
    draw = np.random.default_rng(2)
    worst, ok = {"unit: traffic/(m+k)": 0.0, "rates: traffic/2w": 0.0, "rounds/(m+k)": 0.0}, True
    for _ in range(200):
        m, k, unit = int(draw.integers(3, 40)), int(draw.integers(1, 12)), bool(draw.integers(0, 2))
        counts = draw.integers(1, 9, m)
        rates = {f"s{i}": 1.0 if unit else float(draw.pareto(1.5) + 0.1) for i in range(m)}
        load = Workload.from_names(rates, {f"{i}/{q}": [f"s{i}"] for i in range(m) for q in range(counts[i])})
        found = solve(load, k, "single-source")
        if k >= m or counts.max() >= found.limits[0]:
            continue  # the theorem assumes k < m and 0 < n_s < capacity
        name, bound = ("unit: traffic/(m+k)", m + k) if unit else ("rates: traffic/2w", 2 * load.rate_in_use)
        worst[name] = max(worst[name], found.traffic / bound)
        worst["rounds/(m+k)"] = max(worst["rounds/(m+k)"], found.type.shape[0] / (m + k))
        ok &= found.traffic <= bound * (1 + 1e-9) and found.type.shape[0] <= m + k
    return Claim("MX-24", "single-source algorithm on random instances", "at most m + k; 2w(S); m + k rounds", worst,
                 "exact", ok, "largest ratio to the bound")  # fmt: skip


def bounds() -> Claim:
    """MX-25."""
    draw = np.random.default_rng(4)
    worst = {"mqp / bound": 0.0, "mqp / optimum": 0.0, "any / (k optimum)": 0.0}
    chance = draw.random(997)
    for _ in range(8):
        k = int(draw.integers(2, 4))
        reads = {f"q{i}": [f"s{s}" for s in draw.integers(0, 6, draw.integers(1, 4))] for i in range(12)}
        load = Workload.from_names({f"s{s}": 1.0 for s in range(6)}, reads)
        best, proved = optimum(load, np.ones(k), offline_limits(load, np.ones(k), Balance()))
        assert proved
        widest = int(np.diff(load.start).max())
        got = {a: solve(load, k, a, chance=chance).traffic for a in ("mqp", "ic", "mms", "off-rand")}
        worst["mqp / bound"] = max(
            worst["mqp / bound"], got["mqp"] / (2 * widest * (math.log(k) + 1) * best.traffic)
        )
        worst["mqp / optimum"] = max(worst["mqp / optimum"], got["mqp"] / best.traffic)
        worst["any / (k optimum)"] = max(worst["any / (k optimum)"], max(got.values()) / (k * best.traffic))
    return Claim("MX-25", "small instances against the exact optimum (ILP)", "mqp <= 2 d_max (ln k + 1) OPT; any <= k OPT",
                 worst, "exact", worst["mqp / bound"] <= 1 and worst["any / (k optimum)"] <= 1)  # fmt: skip
