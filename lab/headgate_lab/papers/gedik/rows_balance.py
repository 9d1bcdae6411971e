"""Claims about balance and migration: Figures 3 to 6 (PX-20..45).

A claim is judged with exact frequencies and the exponent of PART-E14. Rows beside it have another
reading: "counted" has frequencies from a lossy counter, "1/3" the exponent as printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from headgate_lab.papers.claims import Claim
from headgate_lab.papers.gedik.sweeps import ALL, COMBINATIONS, OURS, Lab
from headgate_lab.papers.gedik.trial import Frequencies


def near(value: float, wanted: float, tolerance: float) -> bool:
    """Tell whether a value is within an absolute tolerance."""
    return abs(value - wanted) <= tolerance


def crossing(points: Sequence[float], values: Sequence[float], line: float = 1.0) -> float:
    """Return where a curve first exceeds a line, by interpolation; infinite if it does not."""
    for i, value in enumerate(values):
        if value > line:
            if i == 0:
                return float(points[0])
            step = (line - values[i - 1]) / (value - values[i - 1])
            return float(points[i - 1] + step * (points[i] - points[i - 1]))
    return float("inf")


def renamed(claims: Iterable[Claim], reading: str) -> list[Claim]:
    """The same claims as rows of another reading."""
    return [replace(claim, id=f"{claim.id} {reading}") for claim in claims]


def beside(rows: Callable[[Lab], list[Claim]], lab: Lab) -> list[Claim]:
    """The claims of a figure, and beside them the same with the exponent as printed."""
    return [*rows(lab), *renamed(rows(lab.as_printed), "1/3")]


def figure_3(lab: Lab) -> list[Claim]:
    """Resource functions, PX-20..30."""
    got = {(r, a): lab.mean(a, r) for r in COMBINATIONS for a in (*ALL, "random", "readj-clean")}
    noisy = {a: lab.mean(a, "LLL", frequencies="counted") for a in OURS}
    lll = {a: got["LLL", a] for a in (*ALL, "random", "readj-clean")}
    clean = lll["readj-clean"]
    same = f"LLL, z=1, N=10, {lab.runs} rings"

    def best(r: str) -> bool:
        least = min(got[r, a].b for a in (*OURS, "uniform", "consistent"))
        return got[r, "readj"].b <= 1.03 * least

    def worst(r: str) -> bool:
        return got[r, "consistent"].b >= 0.97 * max(got[r, a].b for a in ALL)

    lowest = {r: got[r, "readj"].b / min(got[r, a].b for a in ALL) for r in COMBINATIONS}
    comp = {a: got["LQL", a].b_each[1] for a in (*OURS, "consistent", "uniform")}
    scan_redist = {"redist": lll["redist"].b, "scan": lll["scan"].b}
    m_pair = {"redist": lll["redist"].m, "scan": lll["scan"].m}
    least_m = {r: min(got[r, a].m for a in ALL if a != "consistent") for r in COMBINATIONS}
    ring_m = {r: got[r, "consistent"].m for r in COMBINATIONS}
    lowest_m = all(ring_m[r] <= 1.03 * least_m[r] for r in COMBINATIONS)
    uniform_m = {r: got[r, "uniform"].m for r in COMBINATIONS}
    hard = {r: got[r, "scan"].b for r in ("LCL", "LLL", "LQL")}
    return [
        Claim("PX-20", same, 1.75, lll["consistent"].b, "±0.15", near(lll["consistent"].b, 1.75, 0.15)),
        Claim("PX-21", f"{same}, uniform = rank mod N", 1.55, lll["uniform"].b, "±0.1",
              near(lll["uniform"].b, 1.55, 0.1), f"random uniform hash: {lll['random'].b:.2f} (PART-E3)"),
        Claim("PX-22", f"{same}, b of readj (literal)", 1.20, lll["readj"].b, "±0.12",
              near(lll["readj"].b, 1.20, 0.12),
              f"clean {clean.b:.2f}, with a counter {noisy['readj'].b:.2f}; no reading reaches 1.20 (PART-E9)"),
        Claim("PX-23", f"{same}, b", {"redist": 1.32, "scan": 1.32}, scan_redist, "±0.08",
              all(near(v, 1.32, 0.08) for v in scan_redist.values())),
        Claim("PX-24", f"{same}, m of readj (literal)", 1.34, lll["readj"].m, "±0.2",
              near(lll["readj"].m, 1.34, 0.2),
              f"clean {clean.m:.2f}, with a counter {noisy['readj'].m:.2f}"),
        Claim("PX-25", f"{same}, m", {"redist": 1.23, "scan": 1.23}, m_pair, "±0.12",
              all(near(v, 1.23, 0.12) for v in m_pair.values()),
              f"with a counter: redist {noisy['redist'].m:.2f}, scan {noisy['scan'].m:.2f}"),
        Claim("PX-26", "m of consistent, all combinations", "lowest of all; below 1 in some cases", ring_m,
              "order, ties 3%; below 1 in one at least",
              lowest_m and min(ring_m.values()) < 1,
              "lowest of the others: " + ", ".join(f"{r} {v:.2f}" for r, v in least_m.items())),
        Claim("PX-27", "m of uniform, all combinations", "up to more than 8", uniform_m, "largest in 7..9.5",
              7 <= max(uniform_m.values()) <= 9.5),
        Claim("PX-28", "b of readj / lowest b; consistent worst", "readj lowest, consistent worst", lowest,
              "order, ties ±3%", all(best(r) and worst(r) for r in COMBINATIONS),
              "readj literal; " + ", ".join(f"{r} clean {got[r, 'readj-clean'].b:.2f}" for r in COMBINATIONS)),
        Claim("PX-29", "LQL, relative computation imbalance", "30s for ours; out of control for consistent",
              comp, "28..40; consistent > 100",
              all(28 <= comp[a] <= 40 for a in OURS) and comp["consistent"] > 100,
              "uniform = rank mod N is not in the 30s, as PART-E3 says"),
        Claim("PX-30", "b of scan", "linear, quadratic harder than constant", hard, "order",
              hard["LCL"] < hard["LLL"] < hard["LQL"]),
    ]  # fmt: skip


def figure_4(lab: Lab) -> list[Claim]:
    """Skew, PX-31..36."""
    zs, qs = lab.skews, lab.quadratic_skews
    points: Mapping[str, Sequence[float]] = {"LCL": zs, "LLL": zs, "LQL": qs}
    b = {(r, a): [lab.mean(a, r, skew=z).b for z in points[r]] for r in points for a in ALL}
    uniform = {f"z={z:g}": lab.mean("uniform", "LCL", skew=z).m for z in zs}
    others = max(lab.mean(a, r, skew=z).m for r in points for a in OURS for z in points[r])
    cross = {(r, a): crossing(points[r], b[r, a]) for r in points for a in ALL}
    first = all(cross[r, "consistent"] <= min(cross[r, a] for a in ALL) + 1e-9 for r in points)
    above = 100 * (lab.mean("consistent", "LLL").b / lab.mean("readj", "LLL").b - 1)
    starts = {r: cross[r, "consistent"] for r in points}
    ours_start = {r: cross[r, "redist"] for r in points}
    low = {f"{r} {a}": b[r, a][0] for r in points for a in ALL}
    uniform_best = all(b[r, "uniform"][0] <= min(b[r, a][0] for a in ALL) + 1e-9 for r in points)
    z1 = {a: lab.mean(a, "LLL").b for a in OURS}
    gain = 100 * (1 - z1["readj"] / z1["redist"])
    lql = [100 * (x / y - 1) for x, y in zip(b["LQL", "readj"], b["LQL", "redist"], strict=True)]
    twins = max(abs(x / y - 1) for r in points for x, y in zip(b[r, "scan"], b[r, "redist"], strict=True))
    return [
        Claim("PX-31", f"z {zs[0]:g}..1, m of uniform", "> 8 x ideal; others near it", uniform,
              "uniform in 7..9.5", all(7 <= v <= 9.5 for v in uniform.values()),
              f"largest m of ours {others:.2f}"),
        rises(lab, "exact"),
        *renamed([rises(lab, "counted")], "counted"),
        Claim("PX-33", "consistent first above b=1; its excess over readj, LLL z=1, %", 46.0, above, "30..55",
              first and 30 <= above <= 55, "" if first else "consistent is not always the first to pass 1"),
        Claim("PX-34", "z at which consistent passes b=1", "earliest LQL, latest LCL", starts, "order",
              starts["LQL"] < starts["LLL"] < starts["LCL"],
              "redist: " + ", ".join(f"{r} {v:.2f}" for r, v in ours_start.items())),
        Claim("PX-35", "b at the lowest skew", "all below 1, uniform best", low, "order",
              max(low.values()) < 1 and uniform_best),
        Claim("PX-36", "b of readj below redist, LLL z=1, %", "up to 8; LQL: readj 1 to 2 above; scan and redist alike", gain,
              "above 0, at most 8 + 3; LQL 1.5 +- 3 in the mean; alike within 3",
              0 < gain <= 11 and twins <= 0.03 and -1.5 <= float(np.mean(lql)) <= 4.5,
              f"LQL: readj {min(lql):.1f}..{max(lql):.1f}% above; scan and redist within {100 * twins:.1f}%"),
    ]  # fmt: skip


def rises(lab: Lab, frequencies: Frequencies) -> Claim:
    """Migration over skew, PX-32."""
    zs = [z for z in lab.skews if z >= 0.5]
    runs = None if frequencies == "exact" else lab.stream_runs
    m = {(a, z): lab.mean(a, "LCL", skew=z, frequencies=frequencies, runs=runs).m for a in OURS for z in zs}
    rise = {a: m[a, 1.0] / m[a, 0.8] - 1 for a in OURS}
    flat = all(m[a, 0.8] <= 1.1 * max(m[a, z] for z in zs if z < 0.8) for a in OURS)
    at_one = {a: m[a, 1.0] for a in OURS}
    ordered = at_one["scan"] >= at_one["readj"] >= at_one["redist"]
    told = ", ".join(f"{a} {100 * v:.0f}%" for a, v in rise.items())
    return Claim("PX-32", f"LCL, m at z=1, {frequencies} frequencies", "rises after 0.8; scan > readj > redist",
                 at_one, "order", flat and min(rise.values()) > 0 and ordered,
                 f"rises from 0.8 to 1 by {told}" + ("" if flat else "; rises before 0.8 too")
                 + ("" if ordered else "; the order of the three is not the paper's"))  # fmt: skip


def figure_5(lab: Lab) -> list[Claim]:
    """Sigma, PX-37..40."""
    return [*beside(sigmas, lab), *renamed([by_sigma(lab, "counted")], "counted")]


def by_sigma(lab: Lab, frequencies: Frequencies) -> Claim:
    """Migration over the sweep of sigma, PX-38."""
    runs = lab.sigma_runs if frequencies == "exact" else lab.stream_runs
    points = lab.costly_sigmas
    m = {a: [lab.mean(a, sigma=s, runs=runs, frequencies=frequencies).m for s in points] for a in OURS}
    over = {a: float(np.mean(m[a])) for a in OURS}
    over |= {a: lab.mean(a, runs=runs).m for a in ("consistent", "uniform")}
    order = over["consistent"] <= over["redist"] <= over["readj"] <= over["scan"] <= over["uniform"]
    return Claim("PX-38", f"LCL, m over the sweep, {frequencies} frequencies", "consistent < redist < readj < scan < uniform",
                 over, "order", order, "" if order else "our three are not in the paper's order")  # fmt: skip


def sigmas(lab: Lab) -> list[Claim]:
    """Sigma with exact frequencies, PX-37..40."""
    points, costly = lab.sigmas, lab.costly_sigmas
    runs = lab.sigma_runs
    mean = {("LCL", a, s): lab.mean(a, sigma=s, runs=runs) for a in OURS for s in points}
    mean |= {("LQL", a, s): lab.mean(a, "LQL", sigma=s, runs=runs) for a in OURS for s in costly}
    low, high = points[0], 0.5
    ends = {
        f"{a} {what}": getattr(mean["LCL", a, low], what) / getattr(mean["LCL", a, high], what)
        for a in OURS
        for what in ("b", "m")
    }
    middle = [s for s in points if 0.05 <= s <= 0.25]
    spread = max(
        max(mean["LCL", a, s].b for a in OURS) / min(mean["LCL", a, s].b for a in OURS) - 1 for s in points
    )
    edge = {a: float(np.mean([mean["LCL", a, s].b for s in middle])) for a in OURS}
    lowest = {a: mean["LCL", a, low].b for a in OURS}
    stops = lowest["readj"] >= min(lowest["scan"], lowest["redist"])

    def share(r: str) -> float:
        """The part of a curve's range that lies below sigma = 0.25."""
        b = {s: mean[r, "redist", s].b for s in costly}
        return (b[0.25] - b[costly[0]]) / max(max(b.values()) - min(b.values()), 1e-12)

    lcl_gain, lql_gain = share("LCL"), share("LQL")
    change = {
        f"{s:g}->{t:g}": mean["LQL", "redist", t].b / mean["LQL", "redist", s].b for s, t in pairwise(costly)
    }
    jump = change["0.25->0.5"] >= max(change.values())
    return [
        Claim("PX-37", f"LCL, sigma {low:g} against {high:g}: ratio", "lower b, higher m", ends, "order",
              all(v < 1 if k.endswith("b") else v > 1 for k, v in ends.items())),
        by_sigma(lab, "exact"),
        Claim("PX-39", "LCL, mean b for sigma 0.05..0.25", "similar; readj slightly lower; not at very low sigma",
              edge, "qualitative (10%)", spread <= 0.1 and edge["readj"] <= min(edge.values()) * 1.03 and stops,
              f"largest spread {100 * spread:.0f}%; at sigma={low:g}: "
              + ", ".join(f"{a} {v:.3f}" for a, v in lowest.items())),
        Claim("PX-40", "LQL, redist: b from one sigma to the next", "jump at 0.25-0.5; low sigma gains less",
              change, "qualitative", jump and lql_gain < lcl_gain,
              f"from sigma 0.25 to {costly[0]:g} b falls by {100 * lql_gain:.0f}% of its range for LQL, {100 * lcl_gain:.0f}% for LCL"),
    ]  # fmt: skip


def figure_6(lab: Lab) -> list[Claim]:
    """Channels, PX-41..45."""
    return [*beside(channels, lab), *renamed([many_channels(lab, "counted")], "counted")]


def many_channels(lab: Lab, frequencies: Frequencies) -> Claim:
    """Migration of scan and readj over N, PX-43."""
    runs = (3 if lab.quick else 10) if frequencies == "exact" else lab.stream_runs
    points = [n for n in lab.channels if n >= 8]
    m = {
        (a, n): lab.mean(a, channels=n, runs=runs, frequencies=frequencies).m
        for a in OURS
        for n in points[::-1]
    }
    scan, readj = m["scan", 32], m["readj", 32]
    grow = {a: slope(points, [m[a, n] for n in points]) for a in ("scan", "readj")}
    return Claim("PX-43", f"LCL, N=32, m, {frequencies} frequencies", "scan > 3, readj a little less, both grow",
                 {"scan": scan, "readj": readj}, "order; scan > 3", scan > 3 and scan >= readj and min(grow.values()) > 0,
                 "growth with each channel from 8 on: " + ", ".join(f"{a} {v:+.4f}" for a, v in grow.items())
                 + f"; redist {m['redist', 32]:.2f} at N=32")  # fmt: skip


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of a straight line through the points."""
    return float(np.polyfit(x, y, 1)[0])


def channels(lab: Lab) -> list[Claim]:
    """Channels with exact frequencies, PX-41..45."""
    ns = lab.channels
    runs = 3 if lab.quick else 10
    exact = {(a, n): lab.mean(a, channels=n, runs=runs) for a in ALL for n in reversed(ns)}
    uniform = exact["uniform", 32].m
    redist = {f"N={n}": exact["redist", n].m for n in ns if n >= 8}
    small = [n for n in ns if n <= 20]
    above = max(100 * (exact["uniform", n].b / exact["readj", n].b - 1) for n in small)
    scrambled = max(
        100 * (lab.mean("random", channels=n, runs=runs).b / exact["readj", n].b - 1) for n in small
    )
    best = all(exact["readj", n].b <= 1.03 * min(exact[a, n].b for a in ALL) for n in small)
    large = [n for n in ns if n > 20]
    passes = all(exact["readj", n].b >= min(exact["redist", n].b, exact["scan", n].b) for n in large)
    return [
        Claim("PX-41", "LCL, N=32, m of uniform (rank mod N)", 22.0, uniform, "20..25", 20 <= uniform <= 25),
        Claim("PX-42", "LCL, m of redist for N >= 8", "flat, around 1.15", redist, "each in 1.0..1.3",
              all(1.0 <= m <= 1.3 for m in redist.values()), f"mean {np.mean(list(redist.values())):.3f}"),
        many_channels(lab, "exact"),
        Claim("PX-44", "LCL, N=32, b of consistent", "> 2, growing", exact["consistent", 32].b, "> 2",
              exact["consistent", 32].b > 2 and exact["consistent", 32].b > exact["consistent", 8].b),
        Claim("PX-45", "LCL, uniform above readj for N <= 20, %", 36.0, above, "order",
              best and above > 0 and passes,
              f"readj {'best' if best else 'not best'} for N <= 20; beyond 20 it is "
              f"{'above' if passes else 'not above'} the better of redist and scan; a random uniform hash is up to {scrambled:.0f}% above"),
    ]  # fmt: skip
