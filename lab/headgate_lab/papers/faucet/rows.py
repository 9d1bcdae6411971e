"""Claims about time and memory in the model: Figures 4 and 5 (FC-1..9)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from headgate.flow import Gate
from headgate_lab.papers.claims import Claim
from headgate_lab.papers.faucet.lab import IN_FLIGHT, SHARE, Lab

MODEL = "in the model, not on machines"
PLATEAU = 1.10
"""How much above the best time still counts as the plateau."""


def times(lab: Lab, workers: int) -> list[float]:
    """Seconds by batch size, Figure 4 left."""
    return [lab.gated(share=share, workers=workers).seconds for share in lab.shares]


def peaks(lab: Lab, workers: int) -> list[int]:
    """Peak tuples by batch size, Figure 4 right."""
    return [lab.gated(share=share, workers=workers).peak_tuples for share in lab.shares]


def threshold(shares: Sequence[int], seconds: Sequence[float]) -> float:
    """The rows for each worker from which on the time stays on the plateau, between points
    on a logarithmic scale.

    >>> threshold([10, 100, 1000], [4.0, 2.0, 1.0])
    794.3...
    """
    limit = PLATEAU * min(seconds)
    above = [n for n, took in enumerate(seconds) if took > limit]
    if not above:
        return float(shares[0])
    last = above[-1]
    if last + 1 == len(shares):
        return float(shares[-1])
    part = (seconds[last] - limit) / (seconds[last] - seconds[last + 1])
    return float(shares[last] * (shares[last + 1] / shares[last]) ** part)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent with which y grows with x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _points(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values) or "none"


def figure_4(lab: Lab) -> list[Claim]:
    """Batches in flight and their size, FC-1..5."""
    by_width = {w: [lab.gated(n, workers=w).seconds for n in lab.widths] for w in lab.workers}
    faster = {
        f"{w} workers, {share} C": lab.gated(1, share, workers=w).seconds
        / lab.gated(2, share, workers=w).seconds
        for w in lab.workers
        for share in lab.few_shares
    }
    most = {w: max(v for at, v in faster.items() if at.startswith(f"{w} ")) for w in lab.workers}
    calm = {w: [lab.gated(n, workers=w, pauses=False).seconds for n in lab.widths] for w in lab.workers}
    spread = {f"{w} workers": max(took[1:]) / min(took[1:]) - 1 for w, took in by_width.items()}
    calm_spread = {f"{w} workers": max(took[1:]) / min(took[1:]) - 1 for w, took in calm.items()}
    ends = (f"{lab.workers[0]} workers", f"{lab.workers[-1]} workers")
    seconds = {w: times(lab, w) for w in lab.workers}
    slow = {f"{w} workers": took[0] / min(took) for w, took in seconds.items()}
    thresholds = {w: threshold(lab.shares, took) for w, took in seconds.items()}
    level = {
        w: [t for share, t in zip(lab.shares, took, strict=True) if share >= max(SHARE, thresholds[w])]
        for w, took in seconds.items()
    }
    uneven = {f"{w} workers": max(took) / min(took) - 1 for w, took in level.items() if took}
    memory = {w: peaks(lab, w) for w in lab.workers}
    others = [lab.gated(n, share).peak_tuples for n in (2, 8) for share in (lab.shares[0], lab.shares[-1])]
    return [
        Claim("FC-1", f"time with N=1 over N=2, by B up to {SHARE} C", "multiple-fold", faster,
              ">= 2 for some B, at every number of workers", min(most.values()) >= 2,
              f"{MODEL}; the text does not give B here. Both gates have N, so up to 1 and 4 batches are at work. Without pauses of "
              f"workers, B={SHARE} C: " + ", ".join(f"{w} workers {took[0] / took[1]:.2f}" for w, took in calm.items())),
        Claim("FC-2", f"N from 2 to {lab.widths[-1]}, B={SHARE} C: slowest over fastest, less 1",
              "very limited effect, less with more threads", spread,
              "<= 0.15; not rising with the workers", max(spread.values()) <= 0.15 and spread[ends[1]] <= spread[ends[0]],
              f"{MODEL}; from 4 on " + ", ".join(f"{max(t[2:]) / min(t[2:]) - 1:.3f}" for t in by_width.values())
              + "; the pauses of workers do it, see the row without"),
        Claim("FC-2 no pauses", "the same, workers never pause", "very limited effect, less with more threads", calm_spread,
              "<= 0.15; not rising with the workers", 
              max(calm_spread.values()) <= 0.15 and calm_spread[ends[1]] <= calm_spread[ends[0]], MODEL),
        Claim("FC-3", f"N=4, B={lab.shares[0]} C: times the best", "dramatic slow-down; flat above a threshold", slow,
              ">= 2; plateau within 0.10", min(slow.values()) >= 2 and max(uneven.values()) <= 0.10,
              f"{MODEL}; on the plateau (1000 C and more) " + ", ".join(f"{k} {v:.3f}" for k, v in uneven.items())),
        Claim("FC-4", "threshold over C, rows", 1000.0, {f"{w} workers": v for w, v in thresholds.items()}, "factor 3",
              all(1 / 3 <= v / 1000 <= 3 for v in thresholds.values()),
              f"{MODEL}; where the time comes within 10% of the best"),
        Claim("FC-5", f"N=4: peak tuples at B={lab.shares[-1]} C over {lab.shares[0]} C", "grows with B; N >= 2 alike",
              {f"{w} workers": p[-1] / p[0] for w, p in memory.items()}, "order",
              all(a < b for p in memory.values() for a, b in pairwise(p)) and others[0] < others[1] and others[2] < others[3],
              f"{MODEL}; N=2: {others[1] / others[0]:.1f}, N=8: {others[3] / others[2]:.1f} (8 workers)"),
    ]  # fmt: skip


def growth(lab: Lab) -> tuple[list[int], list[int]]:
    """Peak tuples by part of the input, without gates and with (Figure 5, right)."""
    gate = Gate(IN_FLIGHT, SHARE * 8)
    return (
        [lab.run(None, part=part).peak_tuples for part in lab.parts],
        [lab.run(gate, part=part).peak_tuples for part in lab.parts],
    )


def figure_5(lab: Lab) -> list[Claim]:
    """What gates cost and save, FC-6..9."""
    ratios = {w: lab.near_best(w) for w in lab.workers}
    over = [slowdown - 1 for of_workers in ratios.values() for slowdown in of_workers]
    mean = float(np.mean(over))
    free, gated = growth(lab)
    slopes = {"without": slope(lab.parts, free), "gates": slope(lab.parts, gated)}
    ratio = free[-1] / gated[-1]
    full = Gate(IN_FLIGHT, SHARE * 8)
    filled = [
        (part, free_peak, peak)
        for part, free_peak, peak in zip(lab.parts, free, gated, strict=True)
        if lab.offered(part) >= full.rows
    ]
    parts = [part for part, _, _ in filled]
    enough = len(filled) > 1
    judged = {
        "without": slope(parts, [peak for _, peak, _ in filled]) if enough else 0.0,
        "gates": slope(parts, [peak for _, _, peak in filled]) if enough else 1.0,
    }
    small = "; --quick has too little input to fill the gates" if lab.quick else ""
    gate = Gate(2, SHARE * 2)
    bound = sum(gate.rows * gate.in_flight**level for level in range(3))
    cliques = [lab.run(gate, workers=2, size=4, part=part) for part in lab.parts]
    uncontrolled = lab.run(None, workers=2, size=4, part=lab.parts[0])
    rises = slope(lab.parts, [run.peak_tuples for run in cliques])
    worst = max(run.peak_tuples for run in cliques)
    times_more = cliques[-1].tuples / worst
    return [
        Claim("FC-6", "time with gates over time without, less 1, N 4 and 8, B 1000 C and more", {"mean": 0.15, "rarely above": 0.20},
              {"mean": mean, "least": min(over), "most": max(over)}, "mean <= 0.25", mean <= 0.25,
              f"{MODEL}; by workers " + ", ".join(f"{w} {np.mean(of_workers) - 1:.3f}" for w, of_workers in ratios.items())),
        Claim("FC-7", "exponent with which peak tuples grow with the input, where it fills the gates", {"without": 1.0, "gates": 0.0},
              judged, "gates within 0.1", abs(judged["gates"]) <= 0.1 and judged["without"] >= 0.7,
              f"{MODEL}; N=4, B=8000, 8 workers; {_points(parts)} of the vertices to begin with fill the first gate (N B rows); "
              f"over all points, {_points(lab.parts)}, {slopes['gates']:.3f} with gates and {slopes['without']:.3f} without{small}"),
        Claim("FC-8", "the largest input: peak without gates over peak with", "one to two orders of magnitude", ratio, "10..100",
              10 <= ratio <= 100, f"{MODEL}; {free[-1]} and {gated[-1]} tuples{small}"),
        Claim("FC-9", "4-cliques, three gates, N=2, B=2000, 2 workers: peak tuples", "bounded; far more intermediate state",
              {"peak": worst, "bound": bound}, "within the bound; proposals >= 10 times the peak", worst <= bound and times_more >= 10,
              f"{MODEL}; the bound is B (N + N^2 + N^3); {cliques[-1].tuples} proposals, {times_more:.0f} times the peak, which grows with "
              f"exponent {rises:.2f}; without gates "
              f"{uncontrolled.peak_tuples} at {lab.parts[0]:g} of the input"),
    ]  # fmt: skip
