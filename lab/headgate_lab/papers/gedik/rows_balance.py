"""Claims about balance and migration: Figures 3 to 8 (PX-20..50) and the overall verdict (PX-58)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from headgate_lab.papers.claims import Claim
from headgate_lab.papers.gedik.sweeps import ALL, COMBINATIONS, OURS, UTILITIES, Lab


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


def figure_3(lab: Lab) -> list[Claim]:
    """Resource functions, PX-20..30."""
    got = {(r, a): lab.mean(a, r) for r in COMBINATIONS for a in (*ALL, "random", "readj-clean")}
    noisy = {a: lab.mean(a, "LLL", frequencies="stream") for a in OURS}
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
    m_all = {a: lll[a].m for a in ALL}
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
        Claim("PX-26", f"{same}, m: consistent lowest", "lowest, below 1 in some cases", m_all, "order",
              m_all["consistent"] <= min(m_all.values()) + 1e-9),
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
    few = lab.stream_runs
    m = {
        (a, z): lab.mean(a, "LCL", skew=z, frequencies="stream", runs=few).m
        for a in OURS
        for z in zs
        if z >= 0.5
    }
    rise = {a: m[a, 1.0] / m[a, 0.8] - 1 for a in OURS}
    flat = all(m[a, 0.8] <= 1.1 * max(m[a, z] for z in zs if 0.5 <= z < 0.8) for a in OURS)
    at_one = {a: m[a, 1.0] for a in OURS}
    ordered = at_one["scan"] >= at_one["readj"] >= at_one["redist"]
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
        Claim("PX-32", "LCL, m at z=1, frequencies from a counter", "rises after 0.8; scan > readj > redist",
              at_one, "order", flat and min(rise.values()) > 0 and ordered,
              f"rises from 0.8 to 1 by {', '.join(f'{a} {100 * v:.0f}%' for a, v in rise.items())}"
              + ("" if ordered else "; the order of the three is not the paper's (differences are small)")),
        Claim("PX-33", "consistent first above b=1; its excess over readj, LLL z=1, %", 46.0, above, "30..55",
              first and 30 <= above <= 55, "" if first else "consistent is not always the first to pass 1"),
        Claim("PX-34", "z at which consistent passes b=1", "earliest LQL, latest LCL", starts, "order",
              starts["LQL"] < starts["LLL"] < starts["LCL"],
              "redist: " + ", ".join(f"{r} {v:.2f}" for r, v in ours_start.items())),
        Claim("PX-35", "b at the lowest skew", "all below 1, uniform best", low, "order",
              max(low.values()) < 1 and uniform_best),
        Claim("PX-36", "b of readj below redist, LLL z=1, %", "up to 8", gain, "order, ±3%",
              -3 <= gain <= 11 and twins <= 0.03 and max(abs(x) for x in lql) <= 5,
              f"LQL: readj {min(lql):.1f}..{max(lql):.1f}% above; scan and redist within {100 * twins:.1f}%"),
    ]  # fmt: skip


def figure_5(lab: Lab) -> list[Claim]:
    """Sigma, PX-37..40."""
    sigmas, costly = lab.sigmas, lab.costly_sigmas
    runs = lab.sigma_runs
    mean = {("LCL", a, s): lab.mean(a, sigma=s, runs=runs) for a in OURS for s in sigmas}
    mean |= {("LQL", a, s): lab.mean(a, "LQL", sigma=s, runs=runs) for a in OURS for s in costly}
    few = lab.stream_runs
    noisy = {(a, s): lab.mean(a, sigma=s, runs=few, frequencies="stream").m for a in OURS for s in costly}
    low, high = sigmas[0], 0.5
    ends = {
        f"{a} {what}": getattr(mean["LCL", a, low], what) / getattr(mean["LCL", a, high], what)
        for a in OURS
        for what in ("b", "m")
    }
    over = {a: float(np.mean([noisy[a, s] for s in costly])) for a in OURS}
    over |= {a: lab.mean(a, runs=runs).m for a in ("consistent", "uniform")}
    order = over["consistent"] <= over["redist"] <= over["readj"] <= over["scan"] <= over["uniform"]
    middle = [s for s in sigmas if 0.05 <= s <= 0.25]
    spread = max(
        max(mean["LCL", a, s].b for a in OURS) / min(mean["LCL", a, s].b for a in OURS) - 1 for s in sigmas
    )
    edge = {a: float(np.mean([mean["LCL", a, s].b for s in middle])) for a in OURS}
    lowest = {a: mean["LCL", a, low].b for a in OURS}
    stops = lowest["readj"] >= min(lowest["scan"], lowest["redist"])
    lcl_gain = 1 - mean["LCL", "redist", costly[0]].b / mean["LCL", "redist", 0.25].b
    lql_gain = 1 - mean["LQL", "redist", costly[0]].b / mean["LQL", "redist", 0.25].b
    steps = {
        f"{s:g}->{t:g}": mean["LQL", "redist", t].b / mean["LQL", "redist", s].b for s, t in pairwise(costly)
    }
    jump = steps["0.25->0.5"] >= max(steps.values())
    return [
        Claim("PX-37", f"LCL, sigma {low:g} against {high:g}: ratio", "lower b, higher m", ends, "order",
              all(v < 1 if k.endswith("b") else v > 1 for k, v in ends.items())),
        Claim("PX-38", "LCL, m over the sweep, frequencies from a counter",
              "consistent < redist < readj < scan < uniform", over, "order", order,
              "" if order else "our three differ by little, and not in the paper's order"),
        Claim("PX-39", "LCL, mean b for sigma 0.05..0.25", "similar; readj slightly lower; not at very low sigma",
              edge, "qualitative (10%)", spread <= 0.1 and edge["readj"] <= min(edge.values()) * 1.03 and stops,
              f"largest spread {100 * spread:.0f}%; at sigma={low:g}: "
              + ", ".join(f"{a} {v:.3f}" for a, v in lowest.items())),
        Claim("PX-40", "LQL, redist: b from one sigma to the next", "jump at 0.25-0.5; low sigma gains less",
              steps, "qualitative", jump and lql_gain < lcl_gain,
              f"gain of sigma {costly[0]:g} over 0.25: LQL {100 * lql_gain:.0f}%, LCL {100 * lcl_gain:.0f}%"),
    ]  # fmt: skip


def figure_6(lab: Lab) -> list[Claim]:
    """Channels, PX-41..45."""
    ns = lab.channels
    runs = 3 if lab.quick else 10
    exact = {(a, n): lab.mean(a, channels=n, runs=runs) for a in ALL for n in reversed(ns)}
    few = lab.stream_runs
    noisy = {
        (a, n): lab.mean(a, channels=n, runs=few, frequencies="stream") for a in OURS for n in reversed(ns)
    }
    uniform = exact["uniform", 32].m
    redist = [exact["redist", n].m for n in ns if n >= 8]
    scan_m, readj_m = noisy["scan", 32].m, noisy["readj", 32].m
    grow = {a: noisy[a, 32].m / noisy[a, 8].m for a in ("scan", "readj")}
    small = [n for n in ns if n <= 20]
    above = max(100 * (exact["uniform", n].b / exact["readj", n].b - 1) for n in small)
    best = all(exact["readj", n].b <= 1.03 * min(exact[a, n].b for a in ALL) for n in small)
    large = [n for n in ns if n > 20]
    passes = all(exact["readj", n].b >= min(exact["redist", n].b, exact["scan", n].b) for n in large)
    return [
        Claim("PX-41", "LCL, N=32, m of uniform (rank mod N)", 22.0, uniform, "20..25", 20 <= uniform <= 25),
        Claim("PX-42", "LCL, m of redist for N >= 8: mean", 1.15, float(np.mean(redist)), "1.0..1.3",
              1.0 <= float(np.mean(redist)) <= 1.3,
              f"from {min(redist):.2f} to {max(redist):.2f}; with a counter {noisy['redist', 32].m:.2f} at N=32"),
        Claim("PX-43", "LCL, N=32, m, frequencies from a counter", "scan > 3, readj a little less, both grow",
              {"scan": scan_m, "readj": readj_m}, "order; value with noisy f",
              scan_m > 3 and scan_m >= readj_m and min(grow.values()) > 1,
              f"exact f: scan {exact['scan', 32].m:.2f}, readj {exact['readj', 32].m:.2f}; noise in f does not "
              "bring scan to 3 either, so noise of a window of |D| rows is not the cause (PART-E12)"),
        Claim("PX-44", "LCL, N=32, b of consistent", "> 2, growing", exact["consistent", 32].b, "> 2",
              exact["consistent", 32].b > 2 and exact["consistent", 32].b > exact["consistent", 8].b),
        Claim("PX-45", "LCL, uniform above readj for N <= 20, %", 36.0, above, "order",
              best and above > 0 and passes,
              f"readj {'best' if best else 'not best'} for N <= 20; beyond 20 it is "
              f"{'above' if passes else 'not above'} the better of redist and scan"),
    ]  # fmt: skip


def figure_7(lab: Lab) -> list[Claim]:
    """Utility functions, PX-46 and PX-47."""
    runs = min(lab.runs, 10)
    got = {
        (a, r, u): lab.mean(a, r, utility=u, runs=runs)
        for a in ("readj", "redist") for r in COMBINATIONS for u in UTILITIES
    }  # fmt: skip
    linear = ("LCL", "LLL", "LQL")
    a_worst = all(
        got["readj", r, "A"].m >= 0.97 * max(got["readj", r, u].m for u in UTILITIES) for r in linear
    )
    lowest = {r: min(UTILITIES, key=lambda u: got["readj", r, u].m) for r in linear}
    apm_ratio = {r: got["readj", r, "APM"].m / min(got["readj", r, u].m for u in UTILITIES) for r in linear}
    b_gap = max(
        max(got["readj", r, u].b for u in UTILITIES) / min(got["readj", r, u].b for u in UTILITIES) - 1
        for r in ("CCL", "LCL", "LLL")
    )
    m = {u: got["redist", "LCL", u].m / got["redist", "LCL", "APM"].m - 1 for u in UTILITIES}
    percent = {u: 100 * v for u, v in m.items() if u in ("APLM", "ATM", "ATLM")}
    best = all(
        min(got["redist", r, u].b for u in ("APM", "APLM"))
        <= 1.03 * min(got["redist", r, u].b for u in ("A", "ATM", "ATLM"))
        for r in COMBINATIONS
    )
    times = max(got["redist", "LQL", u].b for u in UTILITIES) / got["redist", "LQL", "APM"].b
    shifts = near(percent["APLM"], 32.5, 17.5) and all(near(percent[u], -37.5, 17.5) for u in ("ATM", "ATLM"))
    return [
        Claim("PX-46", "readj: m of APM / lowest m", "A worst in m; APM lowest except LCL; b the same", apm_ratio,
              "order", a_worst and all(v <= 1.03 for r, v in apm_ratio.items() if r != "LCL") and b_gap <= 0.05,
              f"lowest m: {', '.join(f'{r} {u}' for r, u in lowest.items())}; A "
              f"{'is' if a_worst else 'is not'} worst; b differs by up to {100 * b_gap:.0f}%"),
        Claim("PX-47", "redist, LCL: m against APM, %", {"APLM": 32.5, "ATM": -37.5, "ATLM": -37.5}, percent,
              "order; ±15 points", best and shifts,
              f"APM and APLM {'have' if best else 'do not have'} the best b; LQL: others up to "
              f"{times:.1f} times the b of APM (paper: 3)"),
    ]  # fmt: skip


def figure_8(lab: Lab) -> list[Claim]:
    """Domain size, PX-48..50."""
    sizes = lab.domains
    runs = min(lab.runs, 10)
    got = {(a, d): lab.mean(a, domain=d, runs=runs) for a in ALL for d in sizes}
    few = lab.stream_runs
    noisy = {(a, d): lab.mean(a, domain=d, runs=few, frequencies="stream").m for a in OURS for d in sizes}
    falls = all(got[a, sizes[0]].b > got[a, sizes[-1]].b > 1 for a in OURS)
    order = all(max(got[a, d].b for a in OURS) < got["uniform", d].b < got["consistent", d].b for d in sizes)
    over = {f"{d:.0e}": 100 * (got["redist", d].b / got["readj", d].b - 1) for d in sizes}
    uniform = {f"{d:.0e}": got["uniform", d].m for d in sizes}
    wanted = {"1e+04": 6.58, "1e+05": 7.04, "1e+06": 7.35, "1e+07": 7.58}
    rising = all(x < y for x, y in pairwise(uniform.values()))
    ours = {f"{d:.0e}": float(np.mean([noisy[a, d] for a in OURS])) for d in sizes}
    last = {a: noisy[a, sizes[-1]] for a in OURS}
    consistent = max(got["consistent", d].m for d in sizes)
    ordered = last["redist"] <= last["readj"] <= last["scan"]
    falling = ours[f"{sizes[0]:.0e}"] > ours[f"{sizes[-1]:.0e}"]
    return [
        Claim("PX-48", "LCL, b of redist above readj, %", "up to 3; b falls, stays above 1; ours < uniform < "
              "consistent", over, "order", falls and order,
              "b of redist: " + ", ".join(f"{d:.0e} {got['redist', d].b:.2f}" for d in sizes)),
        Claim("PX-49", "m of uniform (rank mod N)", "6.5..7.5, rising with |D|", uniform, "±0.3",
              rising and all(near(uniform[k], v, 0.3) for k, v in wanted.items() if k in uniform)),
        Claim("PX-50", "m of ours (mean), frequencies from a counter", "2.2 falling to 1.25; redist best; "
              "consistent < 1", ours, "order", falling and ordered and consistent < 1,
              f"largest m of consistent {consistent:.2f}; at {sizes[-1]:.0e}: "
              + ", ".join(f"{a} {v:.2f}" for a, v in last.items())),
    ]  # fmt: skip


def overall(lab: Lab) -> list[Claim]:
    """The verdict of section 5, PX-58: by b * (1 + m), the paper's combined objective (Eq. 13)."""

    def cost(algorithm: str, runs: int = lab.sigma_runs, **at: object) -> float:
        mean = lab.mean(algorithm, runs=runs, **at)  # type: ignore[arg-type]
        return mean.b * (1 + mean.m)

    by_sigma = {f"{s:g}": cost("redist", sigma=s) for s in lab.sigmas}
    by_utility = {u: cost("redist", utility=u) for u in UTILITIES}
    many = 3 if lab.quick else 10  # as in Figure 6
    over_n = {a: float(np.mean([cost(a, many, channels=n) for n in reversed(lab.channels)])) for a in OURS}
    robust = over_n["redist"] <= 1.03 * min(over_n.values())
    sigma_ok = by_sigma["0.1"] <= 1.1 * min(by_sigma.values())
    apm_ok = by_utility["APM"] <= 1.1 * min(by_utility.values())
    return [
        Claim("PX-58", "b (1 + m), mean over N", "sigma=0.1 and APM best compromise; redist most robust", over_n,
              "qualitative (10%)", robust and sigma_ok and apm_ok,
              "by sigma: " + ", ".join(f"{k} {v:.2f}" for k, v in by_sigma.items())
              + "; by utility: " + ", ".join(f"{k} {v:.2f}" for k, v in by_utility.items())),
    ]  # fmt: skip
