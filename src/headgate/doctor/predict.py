"""What Headgate would do with a query: the time of a batch and the balance under each policy, and whether it helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.doctor.balance import Balance, Load, balances, guessed, sampled
from headgate.doctor.costs import Costs
from headgate.doctor.findings import Findings, StageFindings
from headgate.doctor.operators import KINDS, kind_of_operator
from headgate.stage.settings import DEFAULT_POLICY

WORTH = 1.25
"""Below this speed-up a port is not worth it."""
IDLE = 0.5
"""A query that runs a smaller part of the time keeps up: its trigger decides how late results are."""
BALANCED, UNEVEN = 1.2, 1.1
"""Below these a stage is balanced: busiest task over the mean, of time and of rows."""

KeyCounts = Mapping[str, tuple[int, int]]
"""Hash and count of each sampled key, by its label."""


@dataclass(frozen=True)
class PolicyPrediction:
    """A batch under one policy. `busiest` is that of the stage with the most skew."""

    policy: str
    batch_ms: float
    busiest: float
    pins: int
    moves: int


@dataclass(frozen=True)
class Verdict:
    """Whether Headgate would help, and why."""

    helps: bool
    speedup: float | None
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Prediction:
    """Every policy, the default one first, and the verdict. `carried_ms` is work that stays as it is."""

    policies: tuple[PolicyPrediction, ...]
    carried_ms: float
    verdict: Verdict

    @property
    def default(self) -> PolicyPrediction | None:
        """The policy that a stream gets if none is named."""
        return next((each for each in self.policies if each.policy == DEFAULT_POLICY), None)


def predict(
    found: Findings, costs: Costs, cores: int, counts: KeyCounts | None = None, operators: Sequence[str] = ()
) -> Prediction:
    """Predict from findings. `operators` are the names in progress events, for a recording without tasks."""
    stages = found.stages or tuple(_from_progress(found, operators))
    if not stages:
        return Prediction((), 0.0, Verdict(False, None, (NO_STATE,)))
    carried = found.python_before_ms / cores
    by_policy: dict[str, list[tuple[float, Balance]]] = {}
    for number, stage in enumerate(stages):
        cost, rows = costs.kinds[stage.kind], found.rows if number == 0 else stage.rows
        row_ms = max(1e-6, cost.row_us / 1e3)
        splits = KINDS[stage.kind].combines
        for balance in balances(_loads(stage, counts), cores, row_ms=row_ms, splits=splits):
            ms = cost.batch_ms(rows, stage.touched, cores, balance.busiest)
            by_policy.setdefault(balance.policy, []).append((ms, balance))
    complete = {name: parts for name, parts in by_policy.items() if len(parts) == len(stages)}
    policies = tuple(
        PolicyPrediction(
            name,
            carried + sum(ms for ms, _ in parts),
            max(balance.busiest for _, balance in parts),
            sum(balance.pins for _, balance in parts),
            sum(balance.moves for _, balance in parts),
        )
        for name, parts in sorted(complete.items(), key=lambda item: item[0] != DEFAULT_POLICY)
    )
    made = Prediction(policies, carried, Verdict(False, None, ()))
    return Prediction(policies, carried, _verdict(found, stages, made))


NO_STATE = (
    "it has no stateful operator: Headgate routes keys to state, and a query without "
    "state has nothing to route"
)


def _loads(stage: StageFindings, counts: KeyCounts | None) -> list[Load]:
    if counts:
        return [sampled(counts, sum(rows)) for rows in stage.loads]
    return [guessed(rows, max(1, int(stage.touched))) for rows in stage.loads]


def _from_progress(found: Findings, operators: Sequence[str]) -> list[StageFindings]:
    """Stages of a recording that has no tasks: their balance is unknown, and taken for even."""
    from headgate.doctor.findings import Skew

    kinds = [kind for name in operators if (kind := kind_of_operator(name))]
    even = (int(found.rows),)
    return [
        StageFindings(
            kind, KINDS[kind].native, (), 0, 0.0, 0.0, int(found.rows), 0, found.updated / len(kinds),
            Skew(1.0, 1.0, 1.0), (), (even,),
        )
        for kind in kinds
    ]  # fmt: skip


def _verdict(found: Findings, stages: Sequence[StageFindings], made: Prediction) -> Verdict:
    default = made.default
    if default is None or default.batch_ms <= 0:
        return Verdict(False, None, ("the default policy could not be replayed on its loads",))
    speedup = found.batch_ms / default.batch_ms
    reasons = []
    skew = max((stage.skew for stage in stages), key=lambda skew: skew.time)
    if skew.time >= BALANCED and skew.rows >= UNEVEN:
        reasons.append(f"the busiest task takes {skew.time:.1f} times the mean; headgate places keys by load")
    elif skew.time >= BALANCED:
        reasons.append(
            f"the busiest task takes {skew.time:.1f} times the mean with no more rows than others: the machine "
            "is uneven, not the keys"
        )
    elif found.has_tasks:
        reasons.append("its tasks are balanced: there is nothing to gain from placing keys by load")
    if speedup < WORTH:
        reasons.append(_bound(found, made, default.batch_ms))
        return Verdict(False, speedup, tuple(reasons))
    reasons.append(_gain(found))
    if found.busy < IDLE:
        reasons.append(
            f"a batch runs {found.busy:.0%} of the time, so the query keeps up and its trigger decides how late "
            "results are: headgate would free cores, and make no result much earlier"
        )
        return Verdict(False, speedup, tuple(reasons))
    return Verdict(True, speedup, tuple(reasons))


def _bound(found: Findings, made: Prediction, ms: float) -> str:
    if made.carried_ms > 0.5 * ms:
        part = made.carried_ms / found.batch_ms
        return f"{part:.0%} of a batch is Python before the key, which headgate would run just as it is"
    return "what headgate does better is too small a part of a batch"


def _gain(found: Findings) -> str:
    """The largest part of a batch that Headgate does in another way."""
    shares = {
        "fixed cost (planning, logs, scheduling)": found.shares.fixed,
        "Python workers": found.shares.python,
        "shuffle": found.shares.shuffle,
        "the state store": found.shares.state,
        "computing in the JVM": found.shares.rest,
    }
    name, part = max(shares.items(), key=lambda item: item[1])
    return (
        f"most of a batch is {name} ({part:.0%}); headgate has compiled columnar code and one commit instead"
    )
