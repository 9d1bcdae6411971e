"""Hypothesis strategies for headgate's values. Needs hypothesis, which the package doesn't depend on."""

from __future__ import annotations

from hypothesis import strategies as st

from headgate.control.report import BatchReport, HotKey
from headgate.routing.table import Pin, Table
from headgate.testing import builders

key_hashes = st.integers(-(2**63), 2**63 - 1)


@st.composite
def tables(
    draw: st.DrawFn,
    *,
    max_bins: int = 24,
    max_channels: int = 6,
    max_pins: int = 4,
    version: int | None = None,
) -> Table:
    """Any table: any assignment (channels may be empty), pins with gaps
    between their bins, and split keys.
    """
    hash_bins = draw(st.integers(1, max_bins))
    channels = draw(st.integers(1, max_channels))
    hashes = draw(st.lists(key_hashes, max_size=max_pins, unique=True))
    hashes += draw(st.lists(st.sampled_from(hashes), max_size=channels - 1)) if hashes else []
    ids = st.lists(
        st.integers(hash_bins, hash_bins + 3 * (max_pins + max_channels)),
        min_size=len(hashes),
        max_size=len(hashes),
        unique=True,
    )
    pins = tuple(Pin(key, bin, f"key{bin}") for key, bin in zip(hashes, sorted(draw(ids)), strict=True))
    size = hash_bins + len(pins)
    assignment = draw(st.lists(st.integers(0, channels - 1), min_size=size, max_size=size))
    for at, pin in enumerate(pins):
        siblings = [assignment[hash_bins + b] for b in range(at) if pins[b].hash == pin.hash]
        free = [channel for channel in range(channels) if channel not in siblings]
        assignment[hash_bins + at] = draw(st.sampled_from(free))
    return Table(
        version=draw(st.integers(0, 9)) if version is None else version,
        from_batch=0,
        channels=channels,
        hash_bins=hash_bins,
        assignment=tuple(assignment),
        pins=pins,
    )


@st.composite
def reports(draw: st.DrawFn, under: Table, batch: int = 0, *, max_rows: int = 1000) -> BatchReport:
    """Any report of a batch under a table: rows per bin, a cost per row for
    each channel, and some hot keys.
    """
    size = len(under.bins)
    rows = draw(st.lists(st.integers(0, max_rows), min_size=size, max_size=size))
    speeds = st.floats(0.01, 4.0, allow_nan=False)
    costs = draw(st.lists(speeds, min_size=under.channels, max_size=under.channels))
    hot = [
        HotKey(key, under.home_bin(key), f"key {key}", draw(st.integers(1, max_rows)))
        for key in draw(st.lists(key_hashes, max_size=3, unique=True))
    ]
    return builders.report(
        batch, under, dict(zip(under.bins, rows, strict=True)), ms_per_row=costs, hot_keys=hot
    )
