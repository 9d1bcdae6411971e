"""Nexmark's queries that need a kernel, stage after stage in plain memory, against a slow obvious answer."""

import datetime as dt
from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa

import headgate as hg
from headgate_lab.bench.nexmark import events, ours

TEN = dt.timedelta(seconds=10)
EVENTS, BATCHES = 400, 2


def stream(name):
    """Some events five hundred times further apart than they are drawn, so that they fill several windows; and what closes them."""
    found = [events.batch(EVENTS, number)[name] for number in range(BATCHES)]
    for number, table in enumerate(found):
        for at, column in enumerate(table.column_names):
            if column in ("time", "expires"):
                us = table[column].combine_chunks().view(pa.int64()).to_numpy() - events.START_US
                table = table.set_column(at, column, events.instants(events.START_US + 500 * us))
        found[number] = table
    return pa.concat_tables([*found, *(tables[name] for tables in events.closing())])


def through(step, rows, key):
    return hg.testing.run(
        step.operator, rows, key=key, batches=[rows.num_rows - events.CLOSING, *[1] * events.CLOSING], idle=1
    ).rows


def start_of(time, every):
    return time - dt.timedelta(microseconds=int(time.timestamp() * 1e6) % int(every.total_seconds() * 1e6))


def test_query_5_has_all_auctions_with_the_most_bids() -> None:
    bids = stream("bid").select(["auction", "time"])
    bids = bids.filter(
        pa.array([auction % 100 != 0 or not auction for auction in bids["auction"].to_pylist()])
    )
    counts, best = ours.STEPS["q5"]
    counted = pa.Table.from_pylist(through(counts, bids, "auction"))
    found = hg.testing.run(best.operator, counted, key="window_start", idle=1).rows
    windows: defaultdict[dt.datetime, Counter[int]] = defaultdict(Counter)
    for row in bids.to_pylist():
        start = start_of(row["time"], dt.timedelta(seconds=2))
        while start + TEN > row["time"]:
            windows[start][row["auction"]] += 1
            start -= dt.timedelta(seconds=2)
    wanted = {
        (start, auction, n)
        for start, of in windows.items()
        for auction, n in of.items()
        if n == max(of.values())
    }
    data = {row for row in wanted if row[1]}
    assert len(data) > len({start for start, *_ in data})  # without the hot ones some windows have a tie
    assert data == {(row["window_start"], row["auction"], row["n"]) for row in found if row["auction"]}


def test_query_7_has_the_highest_bid_of_each_window() -> None:
    bids = stream("bid")
    starts = [start_of(time, TEN) for time in bids["time"].to_pylist()]
    bids = bids.append_column("window_start", pa.array(starts, pa.timestamp("us", tz="UTC")))
    (step,) = ours.STEPS["q7"]
    found = through(step, bids.drop(["channel"]), "window_start")
    best: dict[dt.datetime, tuple[Any, ...]] = {}
    for row in bids.to_pylist():
        best[row["window_start"]] = max(
            best.get(row["window_start"], (0,)), (row["price"], row["time"], row["auction"], row["bidder"])
        )
    wanted = {start: row for start, row in best.items() if row[0]}
    assert len(wanted) > 1
    assert wanted == {
        row["window_start"]: (row["price"], row["time"], row["auction"], row["bidder"])
        for row in found
        if row["price"]
    }


def test_query_4_has_the_winning_price_of_each_auction() -> None:
    sold = {row["id"]: row for row in stream("auction").to_pylist() if row["id"]}
    pairs: list[dict[str, Any]] = []
    best: dict[int, int] = {}
    for bid in stream("bid").to_pylist():
        auction = sold.get(bid["auction"])
        if auction and auction["time"] <= bid["time"] <= auction["expires"]:
            pairs.append(
                {
                    "auction": bid["auction"],
                    "left_category": auction["category"],
                    "left_expires": auction["expires"],
                    "right_price": bid["price"],
                    "right_time": bid["time"],
                }
            )
            best[bid["auction"]] = max(best.get(bid["auction"], 0), bid["price"])
    end = events.closing()
    (time,) = next(end)["bid"]["time"].to_pylist()
    pairs.append(
        {"auction": 0, "left_category": 0, "left_expires": time, "right_price": 1, "right_time": time}
    )
    found = hg.testing.run(ours.STEPS["q4"][1].operator, pairs, key="auction", batches=2, idle=1).rows
    assert best
    assert best == {row["auction"]: row["price"] for row in found if row["auction"]}
