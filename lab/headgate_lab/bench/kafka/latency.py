"""When a record was visible: from times of sending, offsets of batches, and the moments at which batches appeared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ends = Mapping[int, int]
"""By partition: the offset after the last record that a batch has."""


def latencies(sent: Floats, partitions: int, ends: Sequence[Ends], visible: Sequence[float]) -> Floats:
    """Seconds from sending to the moment at which the batch with the record appeared; NaN if none did.
    Record i is at offset i // partitions of partition i % partitions.

    >>> latencies(np.array([0.0, 1.0, 2.0]), 2, [{0: 1, 1: 0}, {0: 2, 1: 1}], [5.0, 9.0]).tolist()
    [5.0, 8.0, 7.0]
    """
    found = np.full(len(sent), np.nan)
    moments = np.array(visible, float)
    for partition in range(partitions):
        mine = sent[partition::partitions]
        edges = np.array([end.get(partition, 0) for end in ends])
        batch = np.searchsorted(edges, np.arange(len(mine)), side="right")
        there = batch < len(edges)
        waited = np.full(len(mine), np.nan)
        waited[there] = moments[batch[there]] - mine[there]
        found[partition::partitions] = waited
    return found


def sliced(sent: Floats, waited: Floats, *, after_s: float, slice_s: float) -> dict[str, list[float]]:
    """Percentiles in ms, in slices of time; what was sent in the first seconds does not count."""
    at = sent - sent[0] - after_s
    names: dict[str, list[float]] = {"p50": [], "p99": []}
    for number in range(int(at[-1] // slice_s) + 1):
        mine = 1e3 * waited[(at >= number * slice_s) & (at < (number + 1) * slice_s)]
        if len(mine):
            names["p50"].append(float(np.percentile(mine, 50)))
            names["p99"].append(float(np.percentile(mine, 99)))
    return names


def percentile(sent: Floats, waited: Floats, q: float, *, after_s: float) -> float:
    """A percentile in ms over all that was sent after the first seconds."""
    return float(np.percentile(1e3 * waited[sent - sent[0] >= after_s], q))


def appeared(files: Sequence[Path]) -> list[float]:
    """When files appeared under their names, in seconds since 1970, by the file system's own clock."""
    return [file.stat().st_ctime_ns / 1e9 for file in files]


def ends_of(offsets: Mapping[str, Any]) -> Ends:
    """The offsets of one topic, whose partitions JSON has as text."""
    return {int(partition): int(at) for partition, at in offsets.items()}
