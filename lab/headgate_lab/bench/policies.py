"""`headgate bench policies`: the default policy beside every fixed one, on the streams of `bench skew` and the
troubles of `bench rebalance`.

Time is modelled (`policy_streams`), so the machine does not matter. It counts from the first batch to the last:
learning, moving and reading state are in it. Each repetition draws keys, and the channel that is hit, anew; the
first seed is not one of those with which the policy was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.cli.console import Tick, numbers_grid
from headgate_lab.bench.policy_streams import seconds, streams
from headgate_lab.bench.result import Goal, Report, Result, machine

FIXED = ("static", "rebuild", "flux-load", "flux-hybrid")
DEFAULT = "default"
FIRST_SEED = 1000
NEAR, BEHIND_STATIC = 1.05, 1.02
HEADS = ("modelled seconds", *FIXED, DEFAULT, "over the\nbest", "over\nstatic")

Times = Mapping[str, Sequence[float]]
"""The seconds of a stream under each policy, by repetition."""


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure, and compare with the goals."""
    where = machine()
    spent: dict[str, dict[str, list[float]]] = {}
    for number in range(repeat):
        seed = FIRST_SEED + number
        todo = streams(seed, quick=quick)
        for at, stream in enumerate(todo):
            progress(f"{stream.name}, seed {seed}", (number + at / len(todo)) / repeat)
            known = spent.setdefault(stream.name, {name: [] for name in (*FIXED, DEFAULT)})
            for name, samples in known.items():
                samples.append(sum(seconds(stream, "" if name == DEFAULT else name, seed)))
    return report(spent, where=where, quick=quick)


def report(spent: Mapping[str, Times], *, where: Mapping[str, object], quick: bool) -> Report:
    """Every time, and the worst ratios of each stream over the repetitions."""
    results, goals = [], []
    grid = numbers_grid(f"bench policies{' (quick)' if quick else ''}", HEADS)
    grid.columns[0].justify = "left"
    for stream, times in spent.items():
        rounds = list(zip(*(times[name] for name in (*FIXED, DEFAULT)), strict=True))
        over_best = max(mine / min(fixed) for *fixed, mine in rounds)
        over_static = max(mine / static for static, *_, mine in rounds)
        means = {name: sum(samples) / len(samples) for name, samples in times.items()}
        best = min(FIXED, key=means.__getitem__)
        samples = {f"{stream}, {name} (s)": list(each) for name, each in times.items()}
        results.append(Result(f"{stream}: time", "s", means[DEFAULT], best, means[best], samples))
        goals.append(Goal(f"{stream}: time over the best fixed policy", NEAR, over_best, at_most=True))
        goals.append(Goal(f"{stream}: time over static", BEHIND_STATIC, over_static, at_most=True))
        cells = [f"{means[name]:.1f}" for name in (*FIXED, DEFAULT)]
        grid.add_row(stream, *cells, f"{over_best:.3f}", f"{over_static:.3f}")
    return Report("policies", tuple(results), tuple(goals), machine=where, quick=quick, shown=grid)
