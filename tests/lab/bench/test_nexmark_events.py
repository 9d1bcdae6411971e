"""Nexmark's generator: proportions, order, determinism, and ids that exist when they are named."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import ConfigError
from headgate_lab.bench import data
from headgate_lab.bench.nexmark import events

groups = st.integers(1, 20)
numbers = st.integers(0, 200)
seeds = st.integers(0, 2**32)
few = settings(max_examples=30)


def column(table, name):
    values = table[name].combine_chunks()
    return (values.view(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_numpy()


@few
@given(groups, numbers, seeds)
def test_a_batch_has_the_standard_proportions_and_times_in_order(group, number, seed) -> None:
    tables = events.batch(50 * group, number, seed=seed)
    assert {name: len(table) for name, table in tables.items()} == {
        "person": group,
        "auction": 3 * group,
        "bid": 46 * group,
    }
    times = np.concatenate([column(table, "time") for table in tables.values()])
    assert all((np.diff(column(table, "time")) > 0).all() for table in tables.values())
    first = events.START_US + 50 * group * number * events.STEP_US
    assert sorted(times) == list(range(first, first + 50 * group * events.STEP_US, events.STEP_US))


@few
@given(groups, numbers, seeds)
def test_the_same_seed_is_the_same_batch_and_another_is_another(group, number, seed) -> None:
    one, two, other = (events.batch(50 * group, number, seed=s) for s in (seed, seed, seed + 1))
    assert one == two
    assert one["bid"] != other["bid"]


@few
@given(groups, numbers, seeds)
def test_ids_follow_each_other_and_name_what_is_near(group, number, seed) -> None:
    tables = events.batch(50 * group, number, seed=seed)
    persons, auctions, bids = (tables[name] for name in events.STREAMS)
    first = events.FIRST_ID + number * group
    assert column(persons, "id").tolist() == list(range(first, first + group))
    first = events.FIRST_ID + 3 * number * group
    assert column(auctions, "id").tolist() == list(range(first, first + 3 * group))
    for table, name, newest, back in (
        (bids, "auction", "auction", events.IN_FLIGHT),
        (bids, "bidder", "person", events.ACTIVE),
        (auctions, "seller", "person", events.ACTIVE),
    ):
        ids = (column(table, "time") - events.START_US) // events.STEP_US
        known = np.array([slow_newest(int(n), newest) for n in ids])
        named = column(table, name) - events.FIRST_ID
        assert (named >= np.maximum(0, known - back)).all()
        assert (named <= known + events.LEAD).all()
    lasts = column(auctions, "expires") - column(auctions, "time")
    assert ((lasts >= 1) & (lasts <= events.LONGEST_US)).all()


def slow_newest(event, kind):
    """The newest id of a kind, counted one event after the other within its group of fifty."""
    born = {"person": (0,), "auction": (1, 2, 3)}[kind]
    return event // 50 * len(born) + sum(offset <= event % 50 for offset in born) - 1


def test_hot_ids_have_their_share() -> None:
    tables = events.batch(100_000, 3)
    bids, auctions = tables["bid"], tables["auction"]
    shares = {
        "auction": (np.mean((column(bids, "auction") - events.FIRST_ID) % 100 == 0), 1 / 2),
        "bidder": (np.mean((column(bids, "bidder") - events.FIRST_ID) % 100 == 1), 3 / 4),
        "seller": (np.mean((column(auctions, "seller") - events.FIRST_ID) % 100 == 0), 3 / 4),
    }
    for name, (found, hot) in shares.items():
        least = hot + (1 - hot) / 100  # some of the others are hot by chance
        assert found == pytest.approx(least, abs=0.02), name
    prices = column(bids, "price")
    assert 100 <= prices.min() < 200
    assert 90_000_000 < prices.max() <= 100_000_000


def test_files_hold_the_batches_and_then_what_closes_them(tmp_path) -> None:
    count = events.write(tmp_path / "in", events=100, batches=2)
    assert count == 2 + events.CLOSING
    for stream in events.STREAMS:
        files = sorted((tmp_path / "in" / stream).iterdir())
        assert len(files) == count * data.FILES_PER_BATCH
        first = pa.concat_tables(pq.read_table(file) for file in files[: data.FILES_PER_BATCH])
        assert first == events.batch(100, 0)[stream]
        assert first.column_names == [part.split()[0] for part in events.SCHEMAS[stream].split(", ")]
        newest = [pq.read_table(file)["time"].to_pylist() for file in files]
        times = [time for batch in newest for time in batch]
        assert times == sorted(set(times))


@pytest.mark.parametrize(("count", "batches", "said"), [(70, 1, "groups of 50"), (50, 10**6, "an hour")])
def test_sizes_that_cannot_be_are_named(count, batches, said, tmp_path) -> None:
    with pytest.raises(ConfigError, match=said):
        events.write(tmp_path / "in", events=count, batches=batches)
