"""Claims of Figures 3 to 7: MX-1..18, and MX-26 for the summary of Figure 3. "Best" is checked with
a tolerance of one percent, as for curves read by eye.

Figures 3, 4 and 7 are judged with the cutoff of `world.CUTOFF`, and beside it (rows named "cutoff
n") with degrees up to n, as the digest reads the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import get_args

import numpy as np

from headgate_lab.papers.claims import Claim
from headgate_lab.papers.mice.sweeps import OFFLINE, ONLINE, Lab, Measured
from headgate_lab.papers.mice.world import CUTOFF, Attachment

GRACE = 1.01
CUTOFFS = (100, 447, CUTOFF, 10_000, None)
"""Largest degrees that are compared; 447 is the root of n d, None is n."""


def rising(values: Sequence[float]) -> bool:
    """Whether a curve never falls, and ends higher than it began."""
    return all(b >= a for a, b in pairwise(values)) and values[-1] > values[0]


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent of a power law through the points."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def points(x: Iterable[float], y: Iterable[float], name: str) -> dict[str, float]:
    """A curve as a row's value."""
    return {f"{name}={a:g}": float(b) for a, b in zip(x, y, strict=True)}


def beaten(rows: dict[str, dict[str, float]], name: str) -> list[str]:
    """The settings at which another curve is below this one."""
    return [f"{at}: {min(r, key=lambda a: r[a])} {min(r.values()):.3g} < {r[name]:.3g}"
            for at, r in rows.items() if r[name] > GRACE * min(r.values())]  # fmt: skip


def both(rows: Callable[[Lab], list[Claim]], lab: Lab) -> list[Claim]:
    """The claims of a figure, and beside them the same with degrees up to n."""
    beside = [replace(claim, id=f"{claim.id} cutoff n") for claim in rows(lab.wide)]
    return [*rows(lab), *beside]


def least_sure(values: Iterable[Measured]) -> str:
    """The largest error of some means, as a part of them."""
    most = max(v.error / v.mean for v in values)
    return f"largest error of a mean {most:.1%}" if most else "one seed"


def figure_3(lab: Lab) -> list[Claim]:
    """Offline: MX-1..8 and MX-26 with both cutoffs, and how the cutoff was found."""
    return [*both(offline, lab), cutoffs(lab)]


def figure_4(lab: Lab) -> list[Claim]:
    """Online without departures, with both cutoffs: MX-9..12."""
    return [*both(online, lab), *_digest_values(lab.wide)]


def figure_7(lab: Lab) -> list[Claim]:
    """Rates that differ, with both cutoffs: MX-17 and MX-18."""
    return [*both(rates, lab), _popular(lab)]


def cutoffs(lab: Lab) -> Claim:
    """What the text says in numbers, by cutoff: the gains of MMS and LeastCost over chance, by beta at most."""
    got = {}
    for cutoff in CUTOFFS:
        of = {CUTOFF: lab, None: lab.wide}.get(cutoff) or Lab(
            quick=lab.quick, progress=lambda what, part: lab.tell(what), cutoff=cutoff
        )
        name = "n" if cutoff is None else str(cutoff)
        got[f"{name}: MMS"] = max(of.one_ratio("off-rand", "mms", beta=b) for b in of.betas)
        got[f"{name}: LeastCost"] = max(of.one_ratio("on-rand", "least-cost", beta=b) for b in of.betas)
    return Claim("MICE-E3", "largest gain over random placement, by cutoff of the degrees; seed 0", "both up to 4, and close", got,
                 "", None,
                 f"the cutoff is not given; {CUTOFF} is where both gains are about 4 and near each other")  # fmt: skip


def offline(lab: Lab) -> list[Claim]:
    """Offline: MX-1..8, MX-26."""
    by_beta = {a: [lab.still(a, beta=b) for b in lab.betas] for a in OFFLINE}
    by_d = {a: [lab.still(a, d=d) for d in lab.ds] for a in OFFLINE}
    by_k = {a: [lab.still(a, k=k) for k in lab.ks] for a in OFFLINE}
    by_n = {a: [lab.still(a, n=n) for n in lab.ns] for a in OFFLINE}
    ratio = [
        r / min(i, m) for r, i, m in zip(by_beta["off-rand"], by_beta["ic"], by_beta["mms"], strict=True)
    ]
    best = all(max(by_beta[a][i] for a in ("ic", "mms")) <= GRACE * min(by_beta["mqp"][i], by_beta["off-rand"][i])
               for i in range(len(lab.betas)))  # fmt: skip
    gain = {a: np.diff(by_d[a]) / np.diff(lab.ds) for a in OFFLINE}
    bent = [a for a in OFFLINE if not np.all(np.diff(gain[a]) <= 0.01)]
    falls = [
        f"{a} falls by up to {1 - min(y / x for x, y in pairwise(by_d[a])):.2%}"
        for a in OFFLINE
        if not rising(by_d[a])
    ]
    sources = np.mean([lab.one("mms", s, **lab.config(d=1))["sources"] for s in range(lab.runs)])
    third = lab.ds.index(3)
    growth = {a: by_d[a][-1] / by_d[a][third] - 1 for a in ("off-rand", "mqp")}
    lead = {f"d={d}": by_d["mms"][i] / min(by_d[a][i] for a in OFFLINE) for i, d in enumerate(lab.ds)}
    power = {a: slope(lab.ks, by_k[a]) for a in OFFLINE}
    spread = {a: max(by_n[a]) / min(by_n[a]) - 1 for a in OFFLINE}
    settings = axes(lab)
    all_of_it = {f"{x}={v:g}": {a: lab.still(a, **{x: v}) for a in OFFLINE} for x, v in settings}
    lost = beaten(all_of_it, "mms")
    errors = least_sure(lab.measured(a, **{x: v}) for a in OFFLINE for x, v in settings)
    equal = lab.ratio("ic", "mms", d=2)
    return [
        Claim("MX-1", "MMS by beta; all algorithms", "smaller beta, larger factor", points(lab.betas, by_beta["mms"], "beta"),
              "order", all(rising(by_beta[a][::-1]) for a in OFFLINE)),
        Claim("MX-2", "OffRand over the better of IC and MMS, by beta", "up to 4; both best throughout",
              points(lab.betas, ratio, "beta"), "largest 3..5; never worse than OffRand", best and 3 <= max(ratio) <= 5,
              "" if best else "IC or MMS is not below MQP and OffRand everywhere"),
        Claim("MX-3", "MMS by d; all algorithms", "rises, less and less", points(lab.ds, by_d["mms"], "d"), "order, concave",
              not falls and not bent, "; ".join([*falls, *(f"{a} is not concave" for a in bent)])),
        Claim("MX-4", "d=1: all but OffRand run the single-source algorithm", "at most 2, nearly 1", by_d["mms"][0],
              "<= 1 + k/m", by_d["mms"][0] <= 1 + lab.servers / float(sources), f"1 + k/m = {1 + lab.servers / float(sources):.4f}"),
        Claim("MX-5", f"growth from d=3 to d={lab.ds[-1]}", "flat from two or three on", growth, "<= 15%",
              max(growth.values()) <= 0.15),
        Claim("MX-6", "MMS over the best offline algorithm, by d", "MMS best; IC equal for small d", lead, "order",
              max(lead.values()) <= GRACE and abs(by_d["ic"][1] / by_d["mms"][1] - 1) <= 0.05,
              f"IC over MMS at d=2: {equal} (ties: MICE-E9)"),
        Claim("MX-7", "exponent of the factor in k", "rises, sub-linearly", power, "0 < slope < 1",
              all(0 < p < 1 for p in power.values()) and all(rising(by_k[a]) for a in OFFLINE)),
        Claim("MX-8", f"largest over smallest factor, n={lab.ns[0]}..{lab.ns[-1]}", "invariant", spread, "10%",
              max(spread.values()) <= 0.10, errors),
        Claim("MX-26", f"MMS in {len(all_of_it)} settings of Figure 3, all four panels", "consistently outperforms the others",
              f"best in {len(all_of_it) - len(lost)}", "order", not lost, "; ".join(lost)),
    ]  # fmt: skip


def axes(lab: Lab) -> list[tuple[str, float]]:
    """The axes of Figures 3 and 4."""
    return (
        [("beta", b) for b in lab.betas]
        + [("d", d) for d in lab.ds]
        + [("k", k) for k in lab.ks]
        + [("n", n) for n in lab.ns]
    )


def online(lab: Lab) -> list[Claim]:
    """Online without departures: MX-9..12."""
    settings = axes(lab)
    rows = {f"{x}={v:g}": {a: lab.still(a, **{x: v}) for a in ONLINE} for x, v in settings}
    lost = beaten(rows, "least-cost")
    strict = [x for x in lost if lab.cutoff is not None or not x.startswith("beta=1:")]
    grace = "order" if lab.cutoff is not None else "order, beta >= 1.5 (MICE-E3)"
    wins = [
        f"{x}={v:g}" for x, v in settings if rows[f"{x}={v:g}"]["least-cost"] < lab.still("mms", **{x: v})
    ]
    near = {
        at: r["least-source"] / r["least-cost"]
        for at, r in rows.items()
        if at.startswith("beta=") and at != "beta=1"
    }
    ratio = [rows[f"beta={b:g}"]["on-rand"] / rows[f"beta={b:g}"]["least-cost"] for b in lab.betas]
    types = {at: r["least-qt"] / r["on-rand"] - 1 for at, r in rows.items() if at != "d=1"}
    worst = max(types, key=lambda at: abs(types[at]))
    alone = rows["d=1"]
    errors = least_sure(lab.measured(a, **{x: v}) for a in ONLINE for x, v in settings)
    return [
        Claim("MX-9", f"LeastCost in {len(rows)} settings of Figure 4", "best; sometimes below MMS",
              f"best in {len(rows) - len(lost)}; below MMS in {len(wins)}", grace,
              not strict and bool(wins), "; ".join([*lost, errors])),
        Claim("MX-10", "LeastSource over LeastCost", "close", near, "within 25% for beta >= 1.5", max(near.values()) <= 1.25,
              f"at beta=1 {rows['beta=1']['least-source'] / rows['beta=1']['least-cost']:.3f}" if "beta=1" in rows else ""),
        Claim("MX-11", "OnRand over LeastCost, by beta", "up to 4", points(lab.betas, ratio, "beta"), "largest 3..5",
              3 <= max(ratio) <= 5),
        Claim("MX-12", "LeastQT over OnRand, d >= 2, less 1", "practically equal",
              {worst: types[worst], "mean": float(np.mean(list(types.values())))}, "5%", abs(types[worst]) <= 0.05,
              "the farthest and the mean. With d=1 and equal rates a type is a source, so LeastQT is LeastSource "
              f"({alone['least-qt']:.4f} and {alone['least-source']:.4f}; OnRand {alone['on-rand']:.3f}), and can't be close "
              "to LeastCost (MX-10) and equal to OnRand at once: there the two claims exclude each other"),
    ]  # fmt: skip


def _digest_values(lab: Lab) -> list[Claim]:
    """MX-11v and MX-11w, at the seed that the digest used."""
    wanted = {
        "MX-11v": (50_000, 1.5, {"on-rand": 11.40, "least-cost": 2.84}),
        "MX-11w": (50_000, 2.0, {"on-rand": 3.34, "least-source": 1.91, "least-cost": 1.75}),
        "MX-11w 10K": (10_000, 2.0, {"on-rand": 3.29, "least-source": 1.97, "least-cost": 1.71}),
    }
    claims = []
    for name, (n, beta, said) in wanted.items():
        got = {a: lab.one(a, 3, beta=beta, d=2, n=n, k=100)["factor"] for a in said}
        ok = all(abs(got[a] / v - 1) <= 0.10 for a, v in said.items())
        claims.append(Claim(name, f"n={n}, beta={beta:g}, d=2, k=100, seed 3", said, got, "10%", ok))
    return claims


def churn_settings(lab: Lab, *, servers_too: bool) -> list[tuple[str, float]]:
    """The axes of Figure 5 or 6."""
    shared = (
        [("beta", b) for b in lab.churn_betas]
        + [("d", d) for d in lab.churn_ds]
        + [("k", k) for k in lab.churn_ks]
    )
    return shared + (
        [("gamma", g) for g in lab.gammas] if servers_too else [("lifetime", x) for x in lab.lives]
    )


def _churn_rows(lab: Lab, *, servers_too: bool) -> dict[str, dict[str, float]]:
    return {
        f"{x}={v:g}": {a: lab.lived(a, servers_too=servers_too, **{x: v}).mean for a in ONLINE}
        for x, v in churn_settings(lab, servers_too=servers_too)
    }


def _churn_errors(lab: Lab, *, servers_too: bool) -> str:
    settings = churn_settings(lab, servers_too=servers_too)
    return least_sure(lab.lived(a, servers_too=servers_too, **{x: v}) for a in ONLINE for x, v in settings)


def figure_5(lab: Lab) -> list[Claim]:
    """Queries come and go: MX-13..15."""
    rows = _churn_rows(lab, servers_too=False)
    lost = beaten(rows, "least-cost")
    grown = {a: [rows[f"lifetime={x:g}"][a] for x in lab.lives] for a in ONLINE}
    power = {a: slope(lab.lives, grown[a]) for a in ONLINE}
    other = {a: lab.lived(a, lifetimes="pareto").mean / lab.lived(a).mean - 1 for a in ONLINE}
    wide = ", ".join(f"{a} {lab.wide.churned(a).replication:.3g}" for a in ONLINE)
    return [
        Claim("MX-13", f"LeastCost in {len(rows)} settings of Figure 5", "consistently best", f"best in {len(rows) - len(lost)}",
              "order", not lost,
              "; ".join([*lost, _churn_errors(lab, servers_too=False), f"at the default with degrees up to n, seed 0: {wide}"])),
        Claim("MX-14", "exponent of the factor in the mean lifetime", "grows for all; slowly, sub-linearly for LeastCost", power,
              "slope < 0.5 for LeastCost", all(rising(y) for y in grown.values()) and power["least-cost"] < 0.5,
              "LeastCost: " + ", ".join(f"{x:g}: {y:.3g}" for x, y in zip(lab.lives, grown["least-cost"], strict=True))),
        Claim("MX-15", "Pareto lifetimes (shape 2) over exponential ones", "similar", other, "10%",
              max(abs(x) for x in other.values()) <= 0.10),
    ]  # fmt: skip


def figure_6(lab: Lab) -> list[Claim]:
    """Servers too: MX-16."""
    rows = _churn_rows(lab, servers_too=True)
    lost = beaten(rows, "least-cost")
    still = lab.lived("least-cost").mean
    drift = max(abs(rows[f"gamma={g:g}"]["least-cost"] / still - 1) for g in lab.gammas)
    return [
        Claim("MX-16", f"LeastCost in {len(rows)} settings of Figure 6", "best, robust", f"best in {len(rows) - len(lost)}",
              "order", not lost,
              "; ".join([*lost, _churn_errors(lab, servers_too=True),
                         f"over gamma its factor is within {drift:.0%} of that without server churn"])),
    ]  # fmt: skip


GUESSED = (
    "guessed: the x axis is the exponent of the rates, which end at 10,000 (MICE-E20), n, k, d and beta are the defaults, and "
    "rates are in the order of popularity"
)


def rates(lab: Lab) -> list[Claim]:
    """Rates that differ: MX-17 and MX-18, the latter with the labels as printed and swapped."""
    names = ("mms", *ONLINE)
    hows: tuple[Attachment, ...] = ("negative", "random", "positive")
    rows = {(a, e, how): lab.rated(a, e, how) for how in hows for e in lab.exponents for a in names}
    mean = {at: measured.mean for at, measured in rows.items()}
    order = [
        (a, e) for e in lab.exponents for a in names
        if max(mean[a, e, "negative"] / mean[a, e, "random"], mean[a, e, "random"] / mean[a, e, "positive"]) > GRACE
    ]  # fmt: skip
    cells = [(e, how) for how in hows for e in lab.exponents]
    best = [c for c in cells if mean[("least-cost", *c)] <= GRACE * min(mean[(a, *c)] for a in ONLINE)]
    most = len(best) > len(cells) / 2
    against = {
        how: {f"exponent={e:g}": mean["mms", e, how] / mean["least-cost", e, how] for e in lab.exponents}
        for how in hows
    }
    middle = lab.exponents[len(lab.exponents) // 2]
    span = "; ".join(f"{how} {min(r.values()):.3f} to {max(r.values()):.3f}" for how, r in against.items())
    told = f"MMS over LeastCost by label: {span}; LeastCost is the best online rule in {len(best)} of {len(cells)} cells"
    said = "LeastCost best in most; clearly better than MMS here"
    return [
        Claim("MX-17", f"LeastCost, exponent {middle:g}", "negative < random < positive",
              {how: mean["least-cost", middle, how] for how in hows}, "order", not order,
              "; ".join([f"not so for {', '.join(f'{a} at {e:g}' for a, e in order)}"] * bool(order)
                        + [least_sure(rows.values()), GUESSED])),
        Claim("MX-18", "MMS over LeastCost, negative correlation, as printed", said, against["negative"], "order",
              most and min(against["negative"].values()) > GRACE,
              f"{told}. So the sentence does not fit its label; it fits the opposite one, while the order of MX-17 is as printed"),
        Claim("MX-18 swapped", "the same, positive correlation: if the label of that sentence was swapped", said, against["positive"],
              "order", most and min(against["positive"].values()) > GRACE),
    ]  # fmt: skip


def _popular(lab: Lab) -> Claim:
    """MX-18 with the rates that the text says word by word."""
    got = {
        f"{how} beta={b:g}": lab.popular("mms", b, how) / lab.popular("least-cost", b, how)
        for how in get_args(Attachment)
        if how != "random"
        for b in lab.betas
    }
    against = [v for at, v in got.items() if at.startswith("negative")]
    return Claim("MX-18 word by word", "MMS over LeastCost, a source's rate is its popularity or one over it, by beta",
                 "clearly above 1 if negative", got, "order", min(against) > GRACE,
                 "another reading of Figure 7, where the x axis would be beta; seed 0")  # fmt: skip
