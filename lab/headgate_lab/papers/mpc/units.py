"""Claims about the controller itself, exact: CX-9..15."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headgate.policies.horizon import Floats, least_imbalance
from headgate_lab.papers.claims import Claim
from headgate_lab.papers.mpc.controllers import MpcAsPrinted

B = np.array([1.0, 2.0, 4.0])
EVEN = np.full(3, 1 / 3)
BEST = np.array([4.0, 2.0, 1.0]) / 7


def controller(lab: object) -> list[Claim]:
    """All of them; they need no lab."""
    return [*golden(), arrival(), invariants(), deadband(), bias()]


def _plan(unit_s: Floats, shares: Floats, weight: float, offset_s: Floats | float = 0.0) -> Floats:
    plan = least_imbalance(unit_s, shares, weight=weight, offset_s=offset_s)
    assert plan is not None
    return plan


def golden() -> list[Claim]:
    """CX-9, 10 and 11."""
    cases: Sequence[tuple[str, float, float, tuple[float, ...], tuple[float, ...] | None]] = (
        ("CX-9", 1, 5, (0.1274, 0.0045, -0.1319), (0.5680, 0.2885, 0.1435)),
        ("CX-10", 1, 10, (0.1023, 0.0083, -0.1106), (0.5604, 0.2944, 0.1452)),
        ("CX-11", 10, 5, (0.2337, -0.0447, -0.1890), None),
    )
    claims = []
    for name, scale, weight, first, last in cases:
        plan = _plan(scale * B, EVEN, weight)
        off = float(np.abs(plan[0] - EVEN - first).max())
        told = f"first change {_list(first)}"
        got = f"first change {_list(plan[0] - EVEN)}"
        if last is not None:
            off = max(off, float(np.abs(plan[-1] - last).max()))
            told, got = f"{told}; end {_list(last)}", f"{got}; end {_list(plan[-1])}"
        setup = f"B = {scale:g} x diag(1,2,4), equal shares, R={weight:g}"
        claims.append(Claim(name, setup, told, got, "1e-3", off <= 1e-3))
    return claims


def arrival() -> Claim:
    """CX-12."""
    cases = {"R=5": (1, 5), "R=10": (1, 10), "B x10, R=5": (10, 5), "B x10, R=10": (10, 10)}
    expected = {"R=5": 5.0, "R=10": 7.0, "B x10, R=5": 1.0, "B x10, R=10": 1.0}
    taken: dict[str, float] = {}
    for name, (scale, weight) in cases.items():
        shares, steps = EVEN, 0
        while np.abs(shares - BEST).max() > 0.01:
            shares = _plan(scale * B, shares, weight)[0]
            steps += 1
        taken[name] = float(steps)
    ok = all(abs(taken[name] - expected[name]) <= 1 for name in expected)
    return Claim("CX-12", "steps until within 0.01 of the optimum", expected, taken, "exact, +-1", ok)


def invariants() -> Claim:
    """CX-13."""
    machines = (B, np.array([1, 1, 1e4]), np.array([1, 1, 1e6]), np.array([3, 0.2, 5, 1, 1, 9]))
    worst, gap, longest = 0.0, 0.0, 0
    for unit in machines:
        shares, change, steps = np.full(len(unit), 1 / len(unit)), 1.0, 0
        while change > 1e-9 and steps < 500:
            before, shares = shares, _plan(unit / unit.mean(), shares, 1.0)[0]
            worst = max(worst, abs(float(shares.sum()) - 1), -float(shares.min()), float(shares.max()) - 1)
            change, steps = float(np.abs(shares - before).max()), steps + 1
        longest = max(longest, steps)
        gap = max(gap, float(np.abs(shares - (1 / unit) / (1 / unit).sum()).max()))
    return Claim(
        "CX-13", "sum and bounds at each step; distance from u ~ 1/B where the shares stand still", "0",
        {"broken by": worst, "distance": gap, "steps": float(longest)}, "1e-6", worst <= 1e-6 and gap <= 1e-6,
        "four sets of machines, in two of them one is 10,000 and 1,000,000 times slower",
    )  # fmt: skip


def deadband() -> Claim:
    """CX-14."""
    counts = {}
    for change in (0.049, 0.051):
        slow = (3 / (1 - change) - 1) / 2  # its share at equal times is 1 / (2 slow + 1)
        controller = MpcAsPrinted(3, weight=0.0)
        acts = [controller.step(np.array([1.0, 1.0, slow])) is not None for _ in range(40)]
        counts[f"change of {change:.1%}"] = float(sum(acts))
    ok = list(counts.values()) == [0.0, 1.0]
    return Claim(
        "CX-14", "adaptations, the largest change of a share around the deadband of 5%", "none below",
        counts, "exact", ok, "relative to the share in force (MPC-E8)"
    )  # fmt: skip


def bias() -> Claim:
    """CX-15."""
    offset, shares, settled = np.array([0.3, 0.0, 0.0]), EVEN, 0
    for step in range(1, 101):
        new = _plan(B, shares, 5.0, offset)[0]
        if np.abs(new - shares).max() > 1e-3:
            settled = step
        shares = new
    times = B * shares + offset
    return Claim(
        "CX-15", "steps until the shares stand still, one time measured 0.3 too high", "settles", float(settled), "< 50",
        settled < 50, f"the times as measured end within {times.max() / times.min() - 1:.2%} of each other"
    )  # fmt: skip


def _list(values: Sequence[float] | Floats) -> str:
    return ", ".join(f"{value:.4f}" for value in values)
