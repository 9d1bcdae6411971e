"""Claims about the choice of utility and the size of the domain, Figures 7 and 8 (PX-46..50), and the
overall verdict (PX-58). Rows named "natural" have the natural logarithm.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from headgate_lab.papers.claims import Claim
from headgate_lab.papers.gedik.rows_balance import beside, near, renamed, slope
from headgate_lab.papers.gedik.sweeps import ALL, COMBINATIONS, OURS, UTILITIES, Lab
from headgate_lab.papers.gedik.trial import Frequencies

ALPHAS = (1.02, 1.1, 1.2, 1.5, 2.0, 4.0)
"""Tolerated imbalance; 1 itself would make every key a tracked one."""


def figure_7(lab: Lab) -> list[Claim]:
    """Utility functions, PX-46 and PX-47; the base of the logarithm is not given."""
    return [*beside(utilities, lab), *renamed([redist_utilities(lab, "")], "natural")]


def utilities(lab: Lab) -> list[Claim]:
    """Utility functions, PX-46 and PX-47."""
    return [readj_utilities(lab), redist_utilities(lab, "10")]


def readj_utilities(lab: Lab) -> Claim:
    """Utility functions of readj, PX-46."""
    runs = min(lab.runs, 10)
    got = {(r, u): lab.mean("readj", r, utility=u, runs=runs) for r in COMBINATIONS for u in UTILITIES}
    linear = ("LCL", "LLL", "LQL")
    m = {r: {u: got[r, u].m for u in UTILITIES} for r in linear}
    a_worst = all(m[r]["A"] >= max(m[r].values()) for r in linear)
    least = {"LCL": "APLM", "LLL": "APM", "LQL": "APM"}
    over = {f"{r} {u}": m[r][u] / min(m[r].values()) for r, u in least.items()}
    b_gap = max(
        max(got[r, u].b for u in UTILITIES) / min(got[r, u].b for u in UTILITIES) - 1
        for r in ("CCL", "LCL", "LLL")
    )
    b = {u: got["LQL", u].b for u in UTILITIES}
    lowest = {r: min(m[r], key=lambda u: m[r][u]) for r in linear}
    return Claim("PX-46", "readj: m of the utility that the paper finds lowest, over the lowest",
                 "A worst in m; APM lowest, but APLM for LCL; b the same, but APM lowest for LQL", over, "order, ties 3%",
                 a_worst and max(over.values()) <= 1.03 and b_gap <= 0.05 and b["APM"] <= 1.03 * min(b.values()),
                 f"lowest m: {', '.join(f'{r} {u}' for r, u in lowest.items())}; A {'is' if a_worst else 'is not'} worst; b differs by "
                 f"up to {100 * b_gap:.0f}%; LQL: lowest b by {min(b, key=lambda u: b[u])}, "
                 f"APM {b['APM'] / min(b.values()):.3f} times it")  # fmt: skip


def redist_utilities(lab: Lab, base: str) -> Claim:
    """Utility functions of redist, PX-47, with a base of the logarithm ("" is e)."""
    runs = min(lab.runs, 10)
    names = {"A": "A", "APM": "APM", "APLM": f"APLM{base}", "ATM": "ATM", "ATLM": f"ATLM{base}"}
    got = {(r, u): lab.mean("redist", r, utility=names[u], runs=runs) for r in COMBINATIONS for u in names}

    def percent(r: str) -> dict[str, float]:
        return {u: 100 * (got[r, u].m / got[r, "APM"].m - 1) for u in ("APLM", "ATM", "ATLM")}

    shift = percent("LCL")
    best = all(
        min(got[r, u].b for u in ("APM", "APLM")) <= 1.03 * min(got[r, u].b for u in ("A", "ATM", "ATLM"))
        for r in COMBINATIONS
    )
    times = max(got["LQL", u].b for u in names) / got["LQL", "APM"].b
    shifts = near(shift["APLM"], 32.5, 17.5) and all(near(shift[u], -37.5, 17.5) for u in ("ATM", "ATLM"))
    others = "; ".join(
        f"{r} " + ", ".join(f"{u} {v:.0f}" for u, v in percent(r).items()) for r in ("LLL", "LQL")
    )
    return Claim("PX-47", f"redist, LCL: m against APM, %; logarithm to base {base or 'e'}",
                 {"APLM": 32.5, "ATM": -37.5, "ATLM": -37.5}, shift, "order; ±15 points", best and shifts,
                 f"APM and APLM {'have' if best else 'do not have'} the best b; LQL: others up to {times:.1f} times the b of APM "
                 f"(paper: 3); the base is not given. {others}")  # fmt: skip


def figure_8(lab: Lab) -> list[Claim]:
    """Domain size, PX-48..50."""
    return [*beside(domains, lab), *renamed([by_domain(lab, "counted")], "counted")]


def by_domain(lab: Lab, frequencies: Frequencies) -> Claim:
    """Migration over domain sizes, PX-50."""
    sizes = lab.domains
    runs = min(lab.runs, 10) if frequencies == "exact" else lab.stream_runs
    m = {(a, d): lab.mean(a, domain=d, runs=runs, frequencies=frequencies).m for a in OURS for d in sizes}
    ours = {f"{d:.0e}": float(np.mean([m[a, d] for a in OURS])) for d in sizes}
    mean = {a: float(np.mean([m[a, d] for d in sizes])) for a in OURS}
    ring = max(lab.mean("consistent", domain=d, runs=min(lab.runs, 10)).m for d in sizes)
    ordered = mean["redist"] <= mean["readj"] <= mean["scan"]
    falling = slope(np.log10(sizes).tolist(), list(ours.values())) < 0 and ours[f"{sizes[0]:.0e}"] == max(
        ours.values()
    )
    return Claim("PX-50", f"m of ours (mean), {frequencies} frequencies", "2.2 falling to 1.25; redist best, scan worst; consistent < 1",
                 ours, "order", falling and ordered and ring < 1,
                 f"largest m of consistent {ring:.2f}; over all sizes: " + ", ".join(f"{a} {v:.3f}" for a, v in mean.items())
                 + ("" if falling else "; it does not fall") + ("" if ordered else "; the order is not the paper's"))  # fmt: skip


def domains(lab: Lab) -> list[Claim]:
    """Domain size with exact frequencies, PX-48..50."""
    sizes = lab.domains
    runs = min(lab.runs, 10)
    got = {(a, d): lab.mean(a, domain=d, runs=runs) for a in ALL for d in sizes}
    b = {a: [got[a, d].b for d in sizes] for a in ALL}
    falls = all(all(x > y > 1 for x, y in pairwise(b[a])) for a in OURS)
    flattens = all(b[a][-2] - b[a][-1] < b[a][0] - b[a][1] for a in OURS)
    order = all(max(got[a, d].b for a in OURS) < got["uniform", d].b < got["consistent", d].b for d in sizes)
    over = {f"{d:.0e}": 100 * (got["redist", d].b / got["readj", d].b - 1) for d in sizes}
    twins = max(abs(x / y - 1) for x, y in zip(b["scan"], b["redist"], strict=True))
    uniform = {f"{d:.0e}": got["uniform", d].m for d in sizes}
    wanted = {"1e+04": 6.58, "1e+05": 7.04, "1e+06": 7.35, "1e+07": 7.58}
    rising = all(x < y for x, y in pairwise(uniform.values()))
    return [
        Claim("PX-48", "LCL, b of redist above readj, %", "up to 3, scan as redist; b falls and flattens, stays above 1; ours < uniform "
              "< consistent", over, "order; largest in 0..6; scan and redist within 3",
              falls and flattens and order and 0 <= max(over.values()) <= 6 and twins <= 0.03,
              "b of redist: " + ", ".join(f"{d:.0e} {x:.2f}" for d, x in zip(sizes, b["redist"], strict=True))
              + "".join(f"; {what}" for what, ok in (("b does not fall everywhere", falls), ("does not flatten", flattens),
                                                     ("not in that order", order)) if not ok)
              + f"; scan and redist within {100 * twins:.1f}%"),
        Claim("PX-49", "m of uniform (rank mod N)", "6.5..7.5, rising with |D|", uniform, "±0.3",
              rising and all(near(uniform[k], v, 0.3) for k, v in wanted.items() if k in uniform)),
        by_domain(lab, "exact"),
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
        Claim("PART-28 alpha", "redist: b over the range of alpha in Table 1", "range 1 to 4; 1.1 to 1.2 recommended",
              {f"alpha={a:g}": lab.mean("redist", alpha=a, runs=lab.sigma_runs).b for a in ALPHAS}, "", None,
              "no figure has this axis. m: " + ", ".join(f"{lab.mean('redist', alpha=a, runs=lab.sigma_runs).m:.2f}" for a in ALPHAS)
              + "; alpha = 1 itself allows no deviation, so delta would be 0"),
    ]  # fmt: skip
