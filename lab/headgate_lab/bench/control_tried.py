"""Ideas for `mpc` that were tried and not kept, each beside the policy as it is, in one run.

Every idea is a configuration of the policy or a small change of it. The loads are those of the paper with
a seed of their own, and drawn loads with numbers of their own (`TRIED_ON`): none is in the other parts of
the bench, whose goals nothing is fitted to. Time is modelled, so a rerun gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from headgate.cli.console import Tick
from headgate.control.view import LoadView
from headgate.policies import Mpc, hedge
from headgate.policies.controller import Reading
from headgate.policies.forecast import (
    CAUTION,
    LEAST,
    candidates,
    chosen,
    combined,
    forecast,
    mixed,
    predictions,
)
from headgate.policies.horizon import Floats, Horizon
from headgate_lab.bench.control_loads import drawn
from headgate_lab.bench.control_stage import BYTES_PER_MS, Setting, drive, oracle
from headgate_lab.bench.result import Result

SEED, FIRST = 201, 1000
AS_IT_IS = "as it is"
OVER_ORACLE, OVER_IT = "time over the oracle, mean", "time over the policy as it is"
_BANDWIDTH = BYTES_PER_MS / 1e3  # MB/s


@dataclass(frozen=True)
class Other(Mpc):
    """The policy with another forecast; with `nearest` the moves are those nearest to the planned shares."""

    forecaster: Callable[..., Floats] = field(default=forecast)
    nearest: bool = False

    def expected(self, reading: Reading, view: LoadView) -> Floats:
        """What the other forecast says."""
        if not len(reading.history):
            return reading.unit_s
        steps = self.horizon.prediction
        return self.forecaster(
            reading.history, reading.unit_s, steps, alpha=view.alpha, move_s=reading.move_s
        )

    def _refine(self, *of: Any) -> Any:
        return None if self.nearest else super()._refine(*of)


def calm(history: Floats, current: Floats, steps: int, *, alpha: float, move_s: float) -> Floats:
    """Deviations without their largest error, so that a step is not taken for noise."""
    best, _ = combined(history, predictions(history, steps, alpha))
    squares = (history - best.past) ** 2
    kept = np.cumsum(squares, axis=0) - np.maximum.accumulate(squares, axis=0)
    deviation = np.sqrt(kept / np.arange(2, len(history) + 2)[:, None])
    before = np.vstack([np.zeros((1, history.shape[1])), deviation])
    return chosen(candidates(history, current, best, before, alpha=alpha, move_s=move_s))


def blind(history: Floats, current: Floats, steps: int, *, alpha: float, move_s: float) -> Floats:
    """Candidates judged by their batch times without moves."""
    return forecast(history, current, steps, alpha=alpha)


def unguarded(history: Floats, current: Floats, steps: int, *, alpha: float, move_s: float) -> Floats:
    """No forecast is a candidate like the others: AdaHedge chooses among all of them."""
    if len(history) < LEAST or (history == history[0]).all():
        return np.broadcast_to(current, (steps, len(current)))
    best, deviation = combined(history, predictions(history, steps, alpha))
    found = candidates(history, current, best, deviation, alpha=alpha, move_s=move_s)
    return mixed(found, hedge.weights(found.times)[-1])


TRIED: Mapping[str, Mpc] = {
    AS_IT_IS: Mpc(),
    "no forecast": Mpc(forecast=False),
    "no forecast as one candidate of five": Other(forecaster=unguarded),
    "moves nearest to the planned shares": Other(nearest=True),
    "margins up to 4 deviations": Other(forecaster=partial(forecast, caution=(*CAUTION, 4.0))),
    "margins up to 8 deviations": Other(forecaster=partial(forecast, caution=(*CAUTION, 4.0, 8.0))),
    "moves planned at 1.5 times their cost": Mpc(bandwidth_mb_s=_BANDWIDTH / 1.5),
    "moves planned at twice their cost": Mpc(bandwidth_mb_s=_BANDWIDTH / 2),
    "horizon of 3 and 6 batches": Mpc(horizon=Horizon(3, 6)),
    "horizon of 10 and 10 batches": Mpc(horizon=Horizon(10, 10)),
    "horizon of 5 and 15 batches": Mpc(horizon=Horizon(5, 15)),
    "deviations without their largest error": Other(forecaster=calm),
    "candidates judged without moves": Other(forecaster=blind),
    "waves judged one batch ahead": Other(
        forecaster=partial(forecast, predict=partial(predictions, judged=1))
    ),
}


def loads(*, quick: bool) -> list[tuple[Setting, int]]:
    """The loads to try ideas on, each with its seed."""
    if quick:
        return [(Setting("poisson", 3, 2, 3.0, 40, 16), SEED), (Setting("step", 3, 2, 3.0, 40, 16), SEED)]
    paper = [Setting(kind, 6, number) for kind, number in (("poisson", 3), ("cyclic", 6), ("step", 3))]
    many = (("poisson", 16), ("poisson", 32), ("cyclic", 16), ("cyclic", 32), ("step", 16), ("drift", 1))
    paper += [Setting(kind, 32, number, 3.0, 100, 16) for kind, number in many]
    return [(one, SEED) for one in paper] + [(drawn(FIRST + at), 0) for at in range(20)]


def over_oracle(
    policies: Mapping[str, Mpc], on: Sequence[tuple[Setting, int]], progress: Tick
) -> dict[str, list[float]]:
    """The time of each policy over the oracle's, load by load."""
    found: dict[str, list[float]] = {name: [] for name in policies}
    for at, (setting, seed) in enumerate(on):
        progress(f"tried on {setting.name}", at / len(on))
        ideal = oracle(setting, seed).seconds
        for name, policy in policies.items():
            found[name].append(drive(setting, policy, seed).seconds / ideal)
    return found


def measured(*, quick: bool, progress: Tick) -> tuple[Result, ...]:
    """Every idea: the mean of its time over the oracle's, and over that of the policy as it is, load by load."""
    found = over_oracle(TRIED, loads(quick=quick), progress)
    mine = found[AS_IT_IS]
    results = []
    for name, over in found.items():
        each = [a / b for a, b in zip(over, mine, strict=True)]
        samples = {OVER_IT: each}
        results.append(
            Result(
                f"{name}: {OVER_ORACLE}",
                "x",
                float(np.mean(over)),
                AS_IT_IS,
                float(np.mean(mine)),
                samples,
            )
        )
    return tuple(results)
