"""Mutations for the rows of the figures, on small labs: they run with `--full` (see `mutations`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.lab.papers.mutations import Mutation, Patch, gedik, miscounting, part, put, where_it_was

from headgate.policies import FluxLoad, FluxMemory, Static
from headgate.routing.balance import ResourceFunction
from headgate.routing.builders import Objective, Problem
from headgate_lab.papers.claims import Claim

faucet_lab, faucet = part("faucet.lab"), part("faucet.rows")
flux_lab, rows_load, rows_memory = part("flux.lab"), part("flux.rows_load"), part("flux.rows_memory")
rows_balance, rows_choice, rows_cost = (part(f"gedik.rows_{name}") for name in ("balance", "choice", "cost"))
sweeps, trial, tree_ring, world = (
    part(f"gedik.{name}") for name in ("sweeps", "trial", "tree_ring", "world")
)
mice, mice_sweeps = part("mice.rows"), part("mice.sweeps")
controllers, mpc_lab, mpc = part("mpc.controllers"), part("mpc.lab"), part("mpc.rows")


def on(make: Callable[..., Any], *figures: Callable[[Any], list[Claim] | Claim]) -> Callable[[], list[Claim]]:
    """The rows of some figures on a fresh small lab."""

    def run() -> list[Claim]:
        lab = make(quick=True, progress=None)
        found: list[Claim] = []
        for figure in figures:
            made = figure(lab)
            found += made if isinstance(made, list) else [made]
        return found

    return run


# mice


def solved_as(names: dict[str, str]) -> Patch:
    """Some offline algorithms are others."""
    solve = mice_sweeps.solve
    return put(
        mice_sweeps,
        "solve",
        lambda load, k, name, **options: solve(load, k, names.get(name, name), **options),
    )


def ruled_as(name: str, other: str) -> Patch:
    """An online rule is another one."""
    return lambda patch: patch.setitem(mice_sweeps.RULE, name, mice_sweeps.RULE[other])


def graphs(change: Callable[[int, dict[str, Any]], dict[str, Any]]) -> Patch:
    """Workloads are made with other settings."""
    graph = mice_sweeps.graph
    return put(mice_sweeps, "graph", lambda n, **options: graph(n, **change(n, options)))


def one_by_one(patch: pytest.MonkeyPatch) -> None:
    """MMS places query by query, at random."""
    placed = mice_sweeps.Lab.placed

    def other(self: Any, name: str, load: Any, k: int, seed: int) -> Any:
        if name != "mms":
            return placed(self, name, load, k, seed)
        return {**placed(self, "on-rand", load, k, seed), "sources": float(load.sources)}

    patch.setattr(mice_sweeps.Lab, "placed", other)


def few_servers(patch: pytest.MonkeyPatch) -> None:
    """All placements are on ten servers."""
    placed = mice_sweeps.Lab.placed
    patch.setattr(
        mice_sweeps.Lab, "placed", lambda self, name, load, k, seed: placed(self, name, load, 10, seed)
    )


def short_lives(patch: pytest.MonkeyPatch) -> None:
    """A query lives for ten steps, whatever was asked for."""
    churn = mice_sweeps.churn
    patch.setattr(mice_sweeps, "churn", lambda steps, lifetime, **options: churn(steps, 10, **options))


def long_pareto(patch: pytest.MonkeyPatch) -> None:
    """Pareto lifetimes have a tenth of the mean."""
    churn = mice_sweeps.churn
    patch.setattr(
        mice_sweeps, "churn",
        lambda steps, life, *, lifetimes, **rest: churn(steps, life / (10 if lifetimes == "pareto" else 1), lifetimes=lifetimes, **rest),
    )  # fmt: skip


def opposite_rates(patch: pytest.MonkeyPatch) -> None:
    """Rates go against popularity where they should go with it."""
    with_rates = mice_sweeps.with_rates
    other = {"positive": "negative", "negative": "positive", "random": "random"}
    patch.setattr(
        mice_sweeps, "with_rates", lambda load, e, how, *, seed: with_rates(load, e, other[how], seed=seed)
    )


MICE = mice_sweeps.Lab
OF_MICE = (
    Mutation("degrees do not follow beta", ("MX-1",), on(MICE, mice.offline), graphs(lambda n, o: {**o, "beta": 2.0})),
    Mutation("MMS chooses at random", ("MX-4", "MX-6"), on(MICE, mice.offline), one_by_one),
    Mutation("queries read one source each", ("MX-3",), on(MICE, mice.offline), graphs(lambda n, o: {**o, "d": 1})),
    Mutation("OffRand and MQP are MMS", ("MX-5",), on(MICE, mice.offline), solved_as({"off-rand": "mms", "mqp": "mms"})),
    Mutation("there are always ten servers", ("MX-7",), on(MICE, mice.offline), few_servers),
    Mutation("popular sources are more popular as n grows", ("MX-8",), on(MICE, mice.offline),
             graphs(lambda n, o: {**o, "beta": o["beta"] - 0.4 * (n > 10_000)})),
    Mutation("LeastSource chooses at random", ("MX-10",), on(MICE, mice.online), ruled_as("least-source", "on-rand")),
    Mutation("LeastCost chooses at random", ("MX-11", "MX-13", "MX-16"), on(MICE, mice.online, mice.figure_5, mice.figure_6),
             ruled_as("least-cost", "on-rand")),
    Mutation("every query lives for ten steps", ("MX-14",), on(MICE, mice.figure_5), short_lives),
    Mutation("Pareto lifetimes have another mean", ("MX-15",), on(MICE, mice.figure_5), long_pareto),
    Mutation("rates go against popularity", ("MX-17",), on(MICE, mice.rates), opposite_rates),
)  # fmt: skip


# gedik


def ring_is(kind: str, by: str) -> Patch:
    """One kind of hash is another."""
    channels_of = world.World.channels_of

    def other(self: Any, asked: str, seed: int, channels: int, ranks: Any) -> Any:
        return channels_of(self, by if asked == kind else asked, seed, channels, ranks)

    return put(world.World, "channels_of", other)


def still_uniform(patch: pytest.MonkeyPatch) -> None:
    """The uniform hash uses the first two channels, however many there are."""
    patch.setattr(world, "uniform_lookup", lambda ranks, n: (np.asarray(ranks) % 2).astype(np.int16))


def builders(names: dict[str, Any]) -> Patch:
    """Builders are others."""

    def patch_all(patch: pytest.MonkeyPatch) -> None:
        for name, build in names.items():
            patch.setitem(
                trial.ALGORITHMS, name, trial.ALGORITHMS[build] if isinstance(build, str) else build
            )

    return patch_all


def thresholds(change: Callable[[float, int], float]) -> Patch:
    """Other keys are tracked."""
    threshold = trial.tracking_threshold

    def patch_both(patch: pytest.MonkeyPatch) -> None:
        for module in (trial, sweeps):
            patch.setattr(
                module, "tracking_threshold",
                lambda resources, n, **options: change(threshold(resources, n, **options), n),
            )  # fmt: skip

    return patch_both


def scattered(problem: Problem, **_: Any) -> Any:
    """A builder that deals the keys out in turn, hottest last."""
    where = np.arange(problem.volume.shape[0])[::-1] % problem.channels
    return replace(where_it_was(problem), channel=where.astype(np.int64))


def one_skew(fixed: float) -> Patch:
    """Every workload has one skew."""
    usual = sweeps.Lab.world
    return put(sweeps.Lab, "world", lambda self, domain=10**6, skew=1.0: usual(self, domain, fixed))


ALL_STAY = {
    "scan": where_it_was,
    "redist": where_it_was,
    "readj-literal": where_it_was,
    "readj": where_it_was,
}


def many_rings(*, quick: bool, progress: Any) -> Any:
    """The lab in full, for rows that five rings do not settle."""
    return sweeps.Lab(quick=False, progress=progress)


GEDIK = sweeps.Lab
OF_GEDIK = (
    Mutation("the ring is rank mod N", ("PX-33",), on(GEDIK, rows_balance.figure_4), ring_is("ring", "modulo")),
    Mutation("the ring is rank mod N, 20 rings", ("PX-20", "PX-26"), on(many_rings, rows_balance.figure_3), ring_is("ring", "modulo")),
    Mutation("no key is placed, 20 rings", ("PX-28",), on(many_rings, rows_balance.figure_3), builders(ALL_STAY)),
    Mutation("uniform is a random hash", ("PX-21",), on(GEDIK, rows_balance.figure_3),
             ring_is("modulo", "random")),
    Mutation("the uniform hash uses two channels", ("PX-27", "PX-31", "PX-35", "PX-41", "PX-49"),
             on(GEDIK, rows_balance.figure_3, rows_balance.figure_4, rows_balance.channels, rows_choice.domains), still_uniform),
    Mutation("no key is placed", ("PX-22", "PX-23", "PX-24", "PX-25", "PX-36"), on(GEDIK, rows_balance.figure_3, rows_balance.figure_4),
             builders(ALL_STAY)),
    Mutation("every operator is LCL", ("PX-30",), on(GEDIK, rows_balance.figure_3),
             put(sweeps, "Objective", lambda **options: Objective(**{**options, "resources": "LCL"}))),
    Mutation("quadratic resources are linear", ("PX-34",), on(GEDIK, rows_balance.figure_4),
             lambda patch: patch.setitem(trial._ROW, ResourceFunction.QUADRATIC, 1)),
    Mutation("sigma is not looked at", ("PX-37", "PX-40"), on(GEDIK, rows_balance.sigmas),
             put(sweeps, "Objective", lambda **options: Objective(**{**options, "sigma": 0.1}))),
    Mutation("readj deals the keys out in turn", ("PX-39",), on(GEDIK, rows_balance.sigmas), builders({"readj-literal": scattered})),
    Mutation("there is no skew", ("PX-44",), on(GEDIK, rows_balance.channels), one_skew(0.1)),
    Mutation("the utility is always APM", ("PX-47",), on(GEDIK, lambda lab: rows_choice.redist_utilities(lab, "10")),
             put(sweeps, "Objective", lambda **options: Objective(**{**options, "utility": "APM"}))),
    Mutation("a threshold twice as high", ("PX-52",), on(GEDIK, rows_cost.figure_9), thresholds(lambda delta, n: 2 * delta)),
    Mutation("a counter ten times as fine", ("PX-51",), on(GEDIK, rows_cost.figure_9), thresholds(lambda delta, n: delta / 10)),
    Mutation("a threshold that falls with the square of N", ("PX-54",), on(GEDIK, rows_cost.figure_11),
             thresholds(lambda delta, n: delta * 10 / n**1.5)),
    Mutation("readj counts more state than it moves", ("PX-9",), gedik.readjustment, put(gedik, "readj", miscounting)),
    Mutation("a cap of no move at all", ("PX-10",), gedik.readjustment, put(gedik, "CAP", 0)),
    Mutation("skew is not looked at", ("PX-53",), on(GEDIK, rows_cost.figure_10), one_skew(1.0)),
    Mutation("readj is scan", ("PX-55", "PX-57"), on(GEDIK, rows_cost.figure_12, rows_cost.figure_14), builders({"readj-literal": "scan"})),
    Mutation("a ring of ten replicas", ("PX-56",), on(GEDIK, rows_cost.figure_13),
             lambda patch: patch.setattr(tree_ring.TreeRing, "__init__", _small_ring)),
    Mutation("redist deals the keys out in turn", ("PX-58",), on(GEDIK, rows_choice.overall), builders({"redist": scattered})),
)  # fmt: skip


def _small_ring(self: Any, ring: Any, buckets: int = 100) -> None:
    self.buckets, self.comparisons = [[] for _ in range(buckets)], ring.points.shape[0] // 100


# flux


def clusters(**forced: Any) -> Patch:
    """The cluster of the runs about load is another."""
    usual = flux_lab.Lab.load_cluster
    return put(
        flux_lab.Lab, "load_cluster", lambda self, **changes: replace(usual(self, **changes), **forced)
    )


def memory_clusters(**forced: Any) -> Patch:
    """The cluster of the runs about memory is another."""
    usual = flux_lab.Lab.memory_cluster
    return put(flux_lab.Lab, "memory_cluster", lambda self: replace(usual(self), **forced))


def policy_is(name: str, policy: Any) -> Patch:
    """A policy is another."""
    return lambda patch: patch.setitem(flux_lab.POLICIES, name, policy)


def crowded(patch: pytest.MonkeyPatch) -> None:
    """Loaded machines are the slower, the more of them there are."""
    event = flux_lab.Event

    def slower(at_s: float, nodes: Any, *, speed: float | None = None, **rest: Any) -> Any:
        return event(at_s, nodes, speed=speed and speed / (1 + len(nodes) / 8), **rest)

    patch.setattr(flux_lab, "Event", slower)


def one_disk(patch: pytest.MonkeyPatch) -> None:
    """The disk has one speed."""
    cycling = flux_lab.Lab.cycling
    patch.setattr(flux_lab.Lab, "cycling", lambda self, speed: cycling(self, 20.0))


def one_delta(patch: pytest.MonkeyPatch) -> None:
    """The least collection time is 10 ms, whatever was asked for."""
    usual = flux_lab.Lab.one_loaded
    patch.setattr(flux_lab.Lab, "one_loaded", lambda self, policy, delta_min_s=0.01: usual(self, policy))


def uncapped(lab: Any) -> Any:
    """FX-28 to FX-32, without the cap on all moves together."""
    return rows_memory.pressed(lab, capped=False)


FLUX = flux_lab.Lab
EASY = replace(FluxLoad.paper(), imbalance=2.2, settle=2.2)
OF_FLUX = (
    Mutation("a tuple takes 60 us", ("FX-1", "FX-2"), on(FLUX, rows_load.baseline), clusters(service_us=60.0)),
    Mutation("the external load is light", ("FX-4",), on(FLUX, rows_load.figure_3), clusters(loaded_speed=0.95)),
    Mutation("buffers hold nothing", ("FX-5",), on(FLUX, rows_load.figure_3), clusters(buffer_tuples=0)),
    Mutation("small buffers", ("FX-6",), on(FLUX, rows_load.figure_7), clusters(buffer_tuples=200)),
    Mutation("the policy is content with a ratio of 2.2", ("FX-8", "FX-10"), on(FLUX, rows_load.figure_7), policy_is("load", EASY)),
    Mutation("state moves at 5 mbps", ("FX-7", "FX-11"), on(FLUX, rows_load.figure_7), clusters(move_pair_mbps=5.0)),
    Mutation("loaded machines slow each other down", ("FX-12",), on(FLUX, rows_load.figure_8), crowded),
    Mutation("the load policy moves nothing", ("FX-13",), on(FLUX, rows_load.figure_8), policy_is("load", Static())),
    Mutation("the collection time is not looked at", ("FX-17",), on(FLUX, rows_load.figure_9), one_delta),
    Mutation("the memory policy moves nothing, over all", ("FX-33",), on(FLUX, rows_memory.overall), policy_is("memory", Static())),
    Mutation("collecting is short, however long moving took", ("FX-35",), on(FLUX, rows_memory.overall),
             lambda patch: patch.setattr("headgate.simulator.controller.max", lambda first, least: least, raising=False)),
    Mutation("the hybrid is the memory policy", ("FX-28",), on(FLUX, uncapped), policy_is("hybrid", FluxMemory.paper())),
    Mutation("the hybrid is the load policy", ("FX-31", "FX-32"), on(FLUX, uncapped), policy_is("hybrid", FluxLoad.paper())),
    Mutation("the disk has one speed", ("FX-26",), on(FLUX, rows_memory.figure_14), one_disk),
    Mutation("the disk is four times as fast", ("FX-18", "FX-25"), on(FLUX, rows_memory.figure_11, rows_memory.figure_14),
             memory_clusters(disk_mb_per_s=80.0)),
    Mutation("no memory is lost", ("FX-19", "FX-24"), on(FLUX, rows_memory.figure_11, rows_memory.figure_14),
             put(flux_lab, "half_memory", lambda cluster: cluster.memory_mb)),
    Mutation("the memory policy moves nothing", ("FX-20", "FX-21", "FX-23"),
             on(FLUX, rows_memory.figure_11, rows_memory.figure_12, rows_memory.figure_13), policy_is("memory", Static())),
)  # fmt: skip


# mpc


def idle(self: Any, unit_s: Any) -> Any:
    """A controller that keeps the shares."""
    return self.computed


def hasty(patch: pytest.MonkeyPatch) -> None:
    """B is in seconds for the whole workload, and the gate looks at each measurement alone."""
    step = controllers.MpcAsPrinted.next

    def next_(self: Any, unit_s: Any) -> Any:
        self.normalised, self.gate_window = False, 1
        return step(self, unit_s)

    patch.setattr(controllers.MpcAsPrinted, "next", next_)


def cubed(patch: pytest.MonkeyPatch) -> None:
    """R counts with its third power."""
    plan = controllers.least_imbalance
    patch.setattr(
        controllers,
        "least_imbalance",
        lambda unit, shares, *, weight, **rest: plan(unit, shares, weight=weight**3, **rest),
    )


def short_sighted(patch: pytest.MonkeyPatch) -> None:
    """With a horizon beyond ten steps changes cost a million times as much."""
    plan = controllers.least_imbalance
    patch.setattr(
        controllers, "least_imbalance",
        lambda unit, shares, *, weight, horizon: plan(
            unit, shares, weight=weight * (1e6 if horizon.prediction > 10 else 1), horizon=horizon
        ),
    )  # fmt: skip


MPC = mpc_lab.Lab
OF_MPC = (
    Mutation("the controller keeps the shares", ("CX-2", "CX-7"), on(MPC, mpc.figure_2_left, mpc.figure_2_right),
             put(controllers.MpcAsPrinted, "next", idle)),
    Mutation("R counts with its third power", ("CX-6",), on(MPC, mpc.settings), cubed),
    Mutation("a long horizon stops the controller", ("CX-5",), on(MPC, mpc.settings), short_sighted),
    Mutation("B in seconds, and no average before the gate", ("CX-8",), on(MPC, mpc.figure_2_right), hasty),
)  # fmt: skip


# faucet


def machines(**forced: Any) -> Patch:
    """The model has other costs."""
    usual = faucet_lab.Machines
    return put(faucet_lab, "Machines", lambda **options: usual(**{**options, **forced}))


def same_batch(patch: pytest.MonkeyPatch) -> None:
    """Batches have 8,000 rows, whatever was asked for."""
    run = faucet_lab.Lab.run
    patch.setattr(
        faucet_lab.Lab,
        "run",
        lambda self, gate, **options: run(self, gate and replace(gate, batch=8000), **options),
    )


def no_gate(patch: pytest.MonkeyPatch) -> None:
    """Gates are open."""
    run = faucet_lab.Lab.run
    patch.setattr(faucet_lab.Lab, "run", lambda self, gate, **options: run(self, None, **options))


FAUCET = faucet_lab.Lab
OF_FAUCET = (
    Mutation("a message and a completion cost nothing", ("FC-1", "FC-3", "FC-4"), on(FAUCET, faucet.figure_4),
             machines(message_us=0.0, progress_us=0.0, network_us=0.0)),
    Mutation("workers pause for long", ("FC-2",), on(FAUCET, faucet.figure_4), machines(pause_us=20_000.0)),
    Mutation("batches of one size", ("FC-5",), on(FAUCET, faucet.figure_4), same_batch),
    Mutation("a completion is known after 20 ms", ("FC-6",), on(FAUCET, faucet.figure_5), machines(progress_us=20_000.0)),
    Mutation("gates are open", ("FC-9",), on(FAUCET, faucet.figure_5), no_gate),
)  # fmt: skip

LONG: tuple[Mutation, ...] = (*OF_MICE, *OF_GEDIK, *OF_FLUX, *OF_MPC, *OF_FAUCET)
