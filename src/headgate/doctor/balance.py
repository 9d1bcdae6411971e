"""How each policy would balance recorded loads: the product's own control loop over the recorded rows.

The rows of each key are known from a sample, or guessed from the partitions of the native job: what a
partition has above the least of them is taken for one hot key, and the rest is spread evenly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate import policies
from headgate.control.guard import Guard
from headgate.control.loop import Loop
from headgate.control.refusal import Reason
from headgate.control.report import BatchReport, BinReport, ChannelReport, HotKey
from headgate.routing.key_hash import hash_ints
from headgate.routing.table import Table

FEWEST_BATCHES = 12
"""A recording that is shorter is repeated: policies smooth over batches and wait between changes."""
HOT_EXCESS = 0.1
"""What a partition has above the least is a hot key if it is this part of an even share."""
HOT_SHARE = 0.01
LIGHT_KEYS = 4096
BYTES_PER_KEY = 64


@dataclass(frozen=True)
class Load:
    """The rows of each key in one batch; `labels` names the hot ones."""

    hashes: NDArray[np.int64]
    rows: NDArray[np.int64]
    labels: Mapping[int, str]


@dataclass(frozen=True)
class Balance:
    """What a policy made of the loads, in the later half of the batches."""

    policy: str
    busiest: float
    """The busiest channel over the mean."""
    pins: int
    moves: int


def guessed(partitions: Sequence[int], keys: int) -> Load:
    """The load of a batch of which only the rows of each partition are known. Law: no row is lost."""
    rows = np.array(partitions, np.int64)
    total, even = int(rows.sum()), rows.sum() / max(1, len(rows))
    excess = np.where(rows - rows.min() > HOT_EXCESS * even, rows - rows.min(), 0)
    hot = np.flatnonzero(excess)
    light = max(1, min(LIGHT_KEYS, keys))
    spread = np.full(light, (total - int(excess.sum())) // light, np.int64)
    spread[: total - int(excess.sum()) - int(spread.sum())] += 1
    hashes = hash_ints(np.arange(light + len(hot), dtype=np.int64))
    labels = {int(hashes[light + at]): f"partition {p}" for at, p in enumerate(hot.tolist())}
    return Load(hashes, np.concatenate([spread, excess[hot]]), labels)


def sampled(counts: Mapping[str, tuple[int, int]], rows: int) -> Load:
    """The load of a batch of `rows` rows whose keys follow a sample: hash and count by label."""
    found = sorted(counts.items(), key=lambda item: -item[1][1])
    hashes = np.array([hashed for _, (hashed, _) in found], np.int64)
    weights = np.array([count for _, (_, count) in found], np.float64)
    ends = np.rint(np.cumsum(weights) / weights.sum() * rows).astype(np.int64)
    labels = {hashed: label for label, (hashed, _) in found[:LIGHT_KEYS]}
    return Load(hashes, np.diff(ends, prepend=np.int64(0)), labels)


def balances(
    loads: Sequence[Load], channels: int, *, row_ms: float, splits: bool, names: Sequence[str] = ()
) -> list[Balance]:
    """Every policy's balance, best first after `static`; a policy that cannot run here is left out."""
    tried = [_replayed(name, loads, channels, row_ms, splits=splits) for name in names or policies.names()]
    found = [balance for balance in tried if balance is not None]
    return sorted(found, key=lambda each: (each.policy != "static", round(each.busiest, 3), each.policy))


def _replayed(
    name: str, loads: Sequence[Load], channels: int, row_ms: float, *, splits: bool
) -> Balance | None:
    policy = policies.get(name).fitted("LLL", whole="" if splits else "its state cannot be merged")
    bins = max(128, 32 * channels)
    loop = Loop(policy, Guard(), "act", policy.initial(bins, channels))
    count = max(FEWEST_BATCHES, len(loads))
    busiest, moves = [], 0
    for number in range(count):
        report = reported(number, loads[number % len(loads)], loop.table, row_ms)
        busiest.append(report.imbalance)
        decision = loop.step(report)
        if decision.refusal is not None and decision.refusal.name is Reason.policy_raised:
            return None
        if decision.changed and decision.plan is not None:
            moves += len(decision.plan.moves)
    late = busiest[count // 2 :]
    return Balance(name, sum(late) / len(late), len(loop.table.pins), moves)


def reported(number: int, load: Load, table: Table, row_ms: float) -> BatchReport:
    """The report of a batch with this load under a table. Law: no row is lost."""
    bins = table.bin_of_hash(load.hashes)
    rows, keys = Counter[int](), Counter[int]()
    for bin, count in zip(bins.tolist(), load.rows.tolist(), strict=True):
        rows[bin] += count
        keys[bin] += 1
    for hashed, pins in table.splits.items():
        whole = rows.pop(pins[0].bin, 0)
        for at, pin in enumerate(pins):
            rows[pin.bin] += whole // len(pins) + (at < whole % len(pins))
        keys[pins[0].bin] = keys.get(pins[0].bin, 0) or int(bool((load.hashes == hashed).any()))
    total = [0] * table.channels
    held = [0] * table.channels
    for bin, channel in table.items():
        total[channel] += rows[bin]
        held[channel] += keys[bin]
    longest = max(total) * row_ms
    channel_reports = tuple(
        ChannelReport(
            channel, count, busy_ms=count * row_ms, idle_ms=longest - count * row_ms,
            state_bytes=BYTES_PER_KEY * held[channel], state_keys=held[channel],
        )
        for channel, count in enumerate(total)
    )  # fmt: skip
    bin_reports = tuple(
        BinReport(bin, rows[bin], rows[bin] * row_ms, BYTES_PER_KEY * keys[bin], keys[bin])
        for bin, _ in table.items()
    )
    return BatchReport(
        number, table.version, sum(total), longest, channel_reports, bin_reports, _hot(load, table)
    )


def _hot(load: Load, table: Table) -> tuple[HotKey, ...]:
    least = max(2.0, HOT_SHARE * int(load.rows.sum()) / table.channels)
    at = np.flatnonzero(load.rows >= least)
    at = at[np.argsort(-load.rows[at], kind="stable")][:256]
    bins = table.bin_of_hash(load.hashes[at]).tolist()
    hashes = load.hashes[at].tolist()
    return tuple(
        HotKey(hashed, bin, load.labels.get(hashed, ""), int(rows))
        for hashed, bin, rows in zip(hashes, bins, load.rows[at].tolist(), strict=True)
    )
