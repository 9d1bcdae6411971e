"""Nexmark's events: persons, auctions and bids of an auction house in the proportions 1 : 3 : 46,
as its standard generator draws them.

Event n decides what it is and which ids exist (the groups of fifty are the generator's epochs); a
batch is drawn from the seed and its number alone. Half of the bids go to a hot auction, three
quarters come from a hot bidder, three quarters of the auctions from a hot seller, and who is hot
changes with every hundred ids. Columns that only pad (descriptions, addresses, cards, `extra`) are
omitted, and times have microseconds, so that no two events share one.

After the events come `CLOSING` batches of one event of each kind, an hour apart, whose ids are 0:
they close what is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import ConfigError
from headgate_lab.bench import data

Ints = NDArray[np.int64]
PERSONS, AUCTIONS, BIDS = 1, 3, 46
EPOCH = PERSONS + AUCTIONS + BIDS
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
IN_FLIGHT, ACTIVE, LEAD = 100, 1000, 10
"""Auctions that are open, people who act, and ids not born yet that may be named."""
HOT_AUCTION, HOT_BIDDER, HOT_SELLER = 2, 4, 4
"""One in so many is not for the hot one."""
HOT_EVERY = 100
START_US, STEP_US = 1_700_000_000 * 1_000_000, 100
"""The first event's time, and how far events are apart: ten thousand a second."""
LONGEST_US = 2 * STEP_US * (IN_FLIGHT * EPOCH // AUCTIONS)
"""How long an auction can last; on average half of it, in which `IN_FLIGHT` others begin."""
CLOSING, APART_US = 4, 3_600 * 1_000_000
STREAMS = ("person", "auction", "bid")
SCHEMAS = {
    "person": "id long, name string, city string, state string, time timestamp",
    "auction": "id long, seller long, category long, initial long, reserve long, time timestamp, expires timestamp",
    "bid": "auction long, bidder long, price long, channel string, time timestamp",
}
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
HOT_CHANNELS, OTHER_CHANNELS = ("Google", "Facebook", "Baidu", "Apple"), 10_000

_NAMES = pa.array([f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES])
_CHANNELS = pa.array([*HOT_CHANNELS, *(f"channel-{n}" for n in range(OTHER_CHANNELS))])


def batch(events: int, number: int, *, seed: int = 1) -> dict[str, pa.Table]:
    """The persons, auctions and bids of a batch, each in the order of their times."""
    if events < EPOCH or events % EPOCH:
        raise ConfigError(f"events={events}: a batch has whole groups of {EPOCH} events")
    rng = np.random.default_rng([seed, number])
    ids = np.arange(number * events, (number + 1) * events, dtype=np.int64)
    offset = ids % EPOCH
    born = offset < PERSONS
    bids = offset >= PERSONS + AUCTIONS
    return {
        "person": _persons(ids[born], rng),
        "auction": _auctions(ids[~born & ~bids], rng),
        "bid": _bids(ids[bids], rng),
    }


def closing() -> Iterator[dict[str, pa.Table]]:
    """What closes windows, auctions and sessions; the times go on from any number of events in
    less than an hour.
    """
    for number in range(1, CLOSING + 1):
        time = instants(np.array([START_US + number * APART_US]))
        zero = pa.array([0])
        text, state = (
            pa.array([""]),
            pa.array(["OR"]),
        )  # a state that query 3 reads, so that each batch has a row
        yield {
            "person": pa.table({"id": zero, "name": text, "city": text, "state": state, "time": time}),
            "auction": pa.table(
                dict.fromkeys(("id", "seller", "category", "initial", "reserve"), zero)
                | {"time": time, "expires": time}
            ),
            "bid": pa.table(
                dict.fromkeys(("auction", "bidder", "price"), zero) | {"channel": text, "time": time}
            ),
        }


def write(folder: Path, *, events: int, batches: int, seed: int = 1) -> int:
    """Write each stream into a folder of its name; returns how many batches there are, the
    closing ones among them.
    """
    if events * batches * STEP_US >= APART_US:
        raise ConfigError(
            f"{batches} batches of {events} events last longer than an hour, after which all is closed"
        )
    for stream in STREAMS:
        drawn = (batch(events, number, seed=seed) for number in range(batches))
        data.write((tables[stream] for tables in chain(drawn, closing())), folder / stream)
    return batches + CLOSING


def last_person(ids: Ints) -> Ints:
    """The newest person when an event happens, from 0 on."""
    return ids // EPOCH


def last_auction(ids: Ints) -> Ints:
    """The newest auction when an event happens, from 0 on; -1 before the first."""
    offset = ids % EPOCH - PERSONS
    return ids // EPOCH * AUCTIONS + np.minimum(offset, AUCTIONS - 1)


def _persons(ids: Ints, rng: np.random.Generator) -> pa.Table:
    def drawn(words: pa.Array) -> pa.Array:
        return words.take(pa.array(rng.integers(0, len(words), len(ids))))

    return pa.table(
        {
            "id": FIRST_ID + last_person(ids),
            "name": drawn(_NAMES),
            "city": drawn(pa.array(CITIES)),
            "state": drawn(pa.array(STATES)),
            "time": instants(_time(ids)),
        }
    )


def _auctions(ids: Ints, rng: np.random.Generator) -> pa.Table:
    initial = _prices(len(ids), rng)
    newest = last_person(ids)
    hot = rng.integers(0, HOT_SELLER, len(ids)) > 0
    return pa.table(
        {
            "id": FIRST_ID + last_auction(ids),
            "seller": FIRST_ID + np.where(hot, newest // HOT_EVERY * HOT_EVERY, _anyone(newest, rng)),
            "category": FIRST_CATEGORY + rng.integers(0, CATEGORIES, len(ids)),
            "initial": initial,
            "reserve": initial + _prices(len(ids), rng),
            "time": instants(_time(ids)),
            "expires": instants(_time(ids) + rng.integers(1, LONGEST_US, len(ids), endpoint=True)),
        }
    )


def _bids(ids: Ints, rng: np.random.Generator) -> pa.Table:
    auction, person = last_auction(ids), last_person(ids)
    oldest = np.maximum(auction - IN_FLIGHT, 0)
    cold = oldest + rng.integers(0, auction - oldest + 1 + LEAD)
    hot_auction = rng.integers(0, HOT_AUCTION, len(ids)) > 0
    hot_bidder = rng.integers(0, HOT_BIDDER, len(ids)) > 0
    channel = np.where(
        rng.integers(0, 2, len(ids)) > 0,
        rng.integers(0, len(HOT_CHANNELS), len(ids)),
        len(HOT_CHANNELS) + rng.integers(0, OTHER_CHANNELS, len(ids)),
    )
    return pa.table(
        {
            "auction": FIRST_ID + np.where(hot_auction, auction // HOT_EVERY * HOT_EVERY, cold),
            # the second of its hundred, so that hot bidders are not hot sellers
            "bidder": FIRST_ID
            + np.where(hot_bidder, person // HOT_EVERY * HOT_EVERY + 1, _anyone(person, rng)),
            "price": _prices(len(ids), rng),
            "channel": _CHANNELS.take(pa.array(channel)),
            "time": instants(_time(ids)),
        }
    )


def _anyone(newest: Ints, rng: np.random.Generator) -> Ints:
    """One of the active people, or of the next few to come."""
    active = np.minimum(newest + 1, ACTIVE)
    return newest + 1 - active + rng.integers(0, active + LEAD)


def _prices(count: int, rng: np.random.Generator) -> Ints:
    return np.rint(10 ** (6 * rng.random(count)) * 100).astype(np.int64)


def _time(ids: Ints) -> Ints:
    return START_US + STEP_US * ids


def instants(us: Ints) -> pa.Array:
    return pa.array(us).cast(pa.timestamp("us", tz="UTC"))
