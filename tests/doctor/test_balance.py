"""Recorded loads under the product's own policies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import policies
from headgate.doctor.balance import balances, guessed, reported, sampled
from headgate.routing.key_hash import hash_key
from headgate.routing.table import Pin, Table

ROWS = st.lists(st.integers(0, 10_000), min_size=1, max_size=12)


@given(ROWS, st.integers(1, 10_000))
def test_a_guess_loses_no_row(partitions, keys) -> None:
    load = guessed(partitions, keys)
    assert int(load.rows.sum()) == sum(partitions)
    assert int(load.rows.min()) >= 0
    assert len(load.rows) == len(load.hashes) == len(set(load.hashes.tolist()))


@given(st.dictionaries(st.text(max_size=4), st.integers(1, 1000), min_size=1), st.integers(0, 100_000))
def test_a_sample_is_scaled_to_the_rows_of_a_batch(counts, rows) -> None:
    load = sampled({key: (hash_key(key), count) for key, count in counts.items()}, rows)
    assert int(load.rows.sum()) == rows
    assert int(load.rows.min()) >= 0


@given(ROWS, st.integers(1, 6), st.booleans())
def test_a_report_loses_no_row_under_any_table(partitions, channels, split) -> None:
    load = guessed(partitions, 500)
    table = Table.uniform(64, channels)
    hashed = int(load.hashes[-1])
    pieces = 2 if split and channels > 1 else 1
    pinned = Table(
        version=1,
        from_batch=1,
        channels=channels,
        hash_bins=64,
        assignment=(*table.assignment, *range(pieces)),
        pins=tuple(Pin(hashed, 64 + at) for at in range(pieces)),
    )
    for each in (table, pinned):
        report = reported(0, load, each, 0.01)
        assert report.rows == sum(partitions) == sum(bin.rows for bin in report.bins)
        assert sum(channel.rows for channel in report.channels) == report.rows


def by_policy(loads, channels, **options):
    found = balances(loads, channels, row_ms=0.01, splits=False, **options)
    return {each.policy: each for each in found}


def test_a_policy_that_places_by_load_is_better_than_a_static_table() -> None:
    hot = {str(n): (hash_key(n), 4000 if n < 3 else 10) for n in range(1000)}
    found = by_policy([sampled(hot, 100_000)], 4)
    assert set(found) <= set(policies.names())
    assert {"static", "rebuild", "flux-load"} <= set(found)
    assert found["static"].pins == found["static"].moves == 0
    assert found["rebuild"].busiest < found["static"].busiest


def test_even_loads_stay_even_and_nothing_is_moved() -> None:
    found = by_policy([guessed([1000] * 8, 100_000)], 4, names=["static", "rebuild"])
    assert found["rebuild"].busiest == pytest.approx(1.0, abs=0.1)
    assert found["rebuild"].pins == 0


def test_a_key_that_cannot_be_split_bounds_the_balance() -> None:
    load = guessed([800, 100, 50, 50], 1000)
    assert int(np.max(load.rows)) == 750
    found = by_policy([load], 4, names=["rebuild"])
    assert found["rebuild"].busiest == pytest.approx(3.0, abs=0.1)
