"""Waves with one slow task each: what a second wave in flight gains."""

from __future__ import annotations

from headgate_lab.bench.faucet.runs import FaucetSizes, Measured, Runs, median
from headgate_lab.bench.result import Goal, Result


def measure(runs: Runs, sizes: FaucetSizes, repeat: int) -> Measured:
    """Measure, and compare with the goal."""
    warm = [{"waves": 6, "heavy": sizes.heavy // 100}]
    common = {"kind": "stragglers", "heavy": sizes.heavy, "waves": sizes.waves, "warm": warm}
    found = {
        n: [runs.run(f"stragglers, {n} in flight", in_flight=n, **common) for _ in range(repeat)]
        for n in (1, 2)
    }
    seconds = {n: median(figures, "seconds") for n, figures in found.items()}
    samples = {f"stragglers, {n} in flight (s)": [one["seconds"] for one in found[n]] for n in found}
    name = "waves with a straggler each, 2 in flight"
    result = Result(name, "s", seconds[2], "1 in flight", seconds[1], samples)
    return Measured([result], [Goal("stragglers: 1 in flight over 2", 1.5, seconds[1] / seconds[2])])
