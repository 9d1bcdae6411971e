"""The default placement (its rule with repair) beside every other online rule, on every instance of the family.

All rules see the same events. The best of them is not known before, so to be at most 2% behind it on every instance is to be a
safe choice. Beside each figure stands a certified lower bound: no placement within the limits has less traffic, so the
default is at most that factor above the optimum. The default is played without refinement, and without repair, as well.
The instances are drawn from the seeds given; the default was chosen on seeds 1 and 2.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from headgate.cli.console import Tick
from headgate.hosting import DEFAULT_REPAIR, DEFAULT_RULE, NO_REPAIR, RULES
from headgate_lab.bench.placement.family import family
from headgate_lab.bench.placement.trial import play
from headgate_lab.bench.result import Goal, Report, Result

SEEDS = 3
OURS = {
    "default": DEFAULT_REPAIR,
    "without repair": NO_REPAIR,
    "without refinement": replace(DEFAULT_REPAIR, sample=0),
}
"""The default rule with repair and refinement, with neither, and with repair alone."""
RIVALS = tuple(name for name in RULES if name != DEFAULT_RULE.name)


def run(*, quick: bool, progress: Tick, seed: int) -> Report:
    """Play the family with several seeds."""
    queries, seeds = (1_000, 1) if quick else (10_000, SEEDS)
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    seconds, moved = dict.fromkeys(OURS, 0.0), dict.fromkeys(OURS, 0.0)
    fallbacks, events = 0, 0
    for rule, repair in [(DEFAULT_RULE, repair) for repair in OURS.values()] + [
        (RULES[name](), NO_REPAIR) for name in RIVALS
    ]:
        play(family(seed, queries=100)[0], rule, repair)  # compiles it
    for at, drawn in enumerate(range(seed, seed + seeds)):
        members = family(drawn, queries=queries)
        for number, instance in enumerate(members):
            progress(f"{instance.kind}, seed {drawn}", 0.8 * (at + number / len(members)) / seeds)
            of = samples[f"{instance.kind}: {instance.name}"]
            ours = {name: play(instance, DEFAULT_RULE, repair) for name, repair in OURS.items()}
            others = {name: play(instance, RULES[name]()) for name in RIVALS}
            for name, outcome in (ours | others).items():
                of[name].append(outcome.factor)
            default, repaired = ours["default"], ours["without refinement"]
            of["best rule"].append(min(other.factor for other in others.values()))
            of["over the best rule"].append(default.factor / of["best rule"][-1])
            of["over the lower bound"].append(default.final / default.bound)
            of["over repair alone"].append(default.factor / repaired.factor)
            of["without refinement over the lower bound"].append(repaired.final / repaired.bound)
            fallbacks += max(0, max(o.fallbacks for o in ours.values()) - others["least-cost"].fallbacks)
            events += instance.events.shape[0]
            for name, outcome in ours.items():
                seconds[name] += outcome.seconds
                moved[name] += outcome.moved * instance.events.shape[0]
    results = [
        Result(
            name, "x rate of the sources", float(np.mean(of["default"])), "best rule", float(np.mean(of["best rule"])), of
        )
        for name, of in samples.items()
    ]  # fmt: skip
    pooled = {
        kind: [ratio for of in samples.values() for ratio in of[kind]]
        for kind in (
            "over the best rule", "over the lower bound", "over repair alone", "without refinement over the lower bound",
        )
    }  # fmt: skip
    ratios = pooled["over the best rule"]
    means = [(f"family: {kind}, mean", "x", float(np.mean(found)), found) for kind, found in pooled.items()]
    for name in OURS:
        for what, unit, value in (
            ("queries moved for each event", "queries", moved[name] / events),
            ("CPU time of an event", "us", 1e6 * seconds[name] / events),
        ):
            means.append((f"family: {what}, {name}", unit, value, [value]))
    results += [Result(name, unit, value, None, None, {name: rows}) for name, unit, value, rows in means]
    count = f"{len(samples)} instances, seeds {seed} to {seed + seeds - 1}"
    goals = (
        Goal(f"default over the best rule, the worst of {count}", 1.02, max(ratios), at_most=True),
        Goal(f"default over the best rule, the mean of {count}", 0.90, float(np.mean(ratios)), at_most=True),
        Goal("placements beyond a limit, more than LeastCost has", 0, fallbacks, at_most=True, unit=""),
    )
    return Report("placement", tuple(results), goals, quick=quick)
