"""The default placement (its rule with repair) beside every other online rule, on every instance of the family.

All rules see the same events. The best of them is not known before, so to be at most 2% behind it on every instance is to be a
safe choice. Beside each figure stands a certified lower bound: no placement within the limits has less traffic, so the
default is at most that factor above the optimum. The instances are drawn from the seeds given; the default was chosen on
seeds 1 and 2.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from headgate.cli.console import Tick
from headgate.hosting import DEFAULT_REPAIR, DEFAULT_RULE, RULES
from headgate_lab.bench.placement.family import family
from headgate_lab.bench.placement.trial import play
from headgate_lab.bench.result import Goal, Report, Result

SEEDS = 3
RIVALS = tuple(name for name in RULES if name != DEFAULT_RULE.name)


def run(*, quick: bool, progress: Tick, seed: int) -> Report:
    """Play the family with several seeds."""
    queries, seeds = (1_000, 1) if quick else (10_000, SEEDS)
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    fallbacks, plain_s, default_s, events, moved = 0, 0.0, 0.0, 0, 0.0
    for at, drawn in enumerate(range(seed, seed + seeds)):
        members = family(drawn, queries=queries)
        for number, instance in enumerate(members):
            progress(f"{instance.kind}, seed {drawn}", 0.8 * (at + number / len(members)) / seeds)
            of = samples[f"{instance.kind}: {instance.name}"]
            ours = play(instance, DEFAULT_RULE, DEFAULT_REPAIR)
            alone = play(instance, DEFAULT_RULE)
            others = {name: play(instance, RULES[name]()) for name in RIVALS}
            of["default"].append(ours.factor)
            of["without repair"].append(alone.factor)
            for name, other in others.items():
                of[name].append(other.factor)
            of["best rule"].append(min(other.factor for other in others.values()))
            of["over the best rule"].append(of["default"][-1] / of["best rule"][-1])
            of["over the lower bound"].append(ours.final / ours.bound)
            fallbacks += max(0, ours.fallbacks - others["least-cost"].fallbacks)
            plain_s, default_s = plain_s + alone.seconds, default_s + ours.seconds
            events, moved = events + instance.events.shape[0], moved + ours.moved * instance.events.shape[0]
    results = [
        Result(
            name, "x rate of the sources", float(np.mean(of["default"])), "best rule", float(np.mean(of["best rule"])), of
        )
        for name, of in samples.items()
    ]  # fmt: skip
    ratios = [ratio for of in samples.values() for ratio in of["over the best rule"]]
    bounds = [ratio for of in samples.values() for ratio in of["over the lower bound"]]
    means = [
        ("family: over the best rule, mean", "x", float(np.mean(ratios)), ratios),
        ("family: over the lower bound, mean", "x", float(np.mean(bounds)), bounds),
        ("family: queries moved for each event", "queries", moved / events, [moved / events]),
        (
            "family: CPU time of an event with repair",
            "us",
            1e6 * default_s / events,
            [1e6 * default_s / events],
        ),
        (
            "family: CPU time of an event without repair",
            "us",
            1e6 * plain_s / events,
            [1e6 * plain_s / events],
        ),
    ]
    results += [Result(name, unit, value, None, None, {name: rows}) for name, unit, value, rows in means]
    count = f"{len(samples)} instances, seeds {seed} to {seed + seeds - 1}"
    goals = (
        Goal(f"default over the best rule, the worst of {count}", 1.02, max(ratios), at_most=True),
        Goal(f"default over the best rule, the mean of {count}", 0.90, float(np.mean(ratios)), at_most=True),
        Goal("placements beyond a limit, more than LeastCost has", 0, fallbacks, at_most=True, unit=""),
    )
    return Report("placement", tuple(results), goals, quick=quick)
