"""What the output must be, from the rows alone.

The n-th row of a key has the value `1 << n`, so the sum over some rows of a key names each of them: a row
that is lost, doubled or out of order shows in it, however the stream was cut into batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from headgate import agg
from headgate.kernels.kernel import kernel
from headgate.operators.aggregate import Aggregate
from headgate.operators.base import Operator
from headgate.operators.dedup import Dedup
from headgate.operators.stream_join import Join
from headgate.operators.windows import Windows, tumbling
from headgate_lab.chaos.source import Row, bit_of, group_of, side_of

WINDOW_S = 4
Batches = Mapping[int, Sequence[Mapping[str, Any]]]
"""The rows of the output, by batch."""


@kernel(state={"n": int, "s": int}, output={"n": int, "s": int}, compiled=False)
def running(state: Any, row: Any) -> Any:
    """The number and the sum of a key's rows, after each row."""
    state.n += 1
    state.s += row.v
    return state.n, state.s


def operator_of(name: str) -> Operator:
    """The operator of a history."""
    if name == "sum":
        return Aggregate(n=agg.count(), s=agg.sum("v"))
    if name == "last":
        return Aggregate(n=agg.count(), s=agg.sum("v"), last=agg.last("v"))
    if name == "dedup":
        return Dedup(keep=["v"])
    if name == "two stages":
        return Dedup(keep=["g", "w"])
    if name == "kernel":
        return running
    if name == "join":  # the bounds are so wide that every row of a key matches all of the other side
        return Join(before="1 day", after="1 day", delay="1 day")
    window = tumbling(f"{WINDOW_S} seconds")
    return Windows(window, on="t", delay="1 second", n=agg.count(), s=agg.sum("v"))


FIRST_OF_KEY = pa.schema([("k", pa.int64()), ("g", pa.int64()), ("w", pa.int64())])
"""The columns between two stages: the first row of each key, its group and its bit in the group."""


def groups() -> Operator:
    """The second of two stages: the keys of a group."""
    return Aggregate(n=agg.count(), s=agg.sum("w"))


def wrong(name: str, rows: Sequence[Row], output: Batches, *, split: bool, final: bool) -> Iterable[str]:
    """What is wrong with the output. `split` says that a key was split at some time: then its rows have no
    order. At the end (`final`) nothing may be missing.
    """
    ordered = [row for batch in sorted(output) for row in output[batch]]
    if name == "two stages":
        sent = [(group_of(k), bit_of(k), t) for k, _, t in rows]
        renamed = [{**row, "k": row["g"]} for row in ordered]
        return _running(sent, renamed, split=True, final=final, last=False)
    if name in ("sum", "last", "kernel"):
        return _running(rows, ordered, split=split, final=final, last=name == "last")
    if name == "dedup":
        return _first(rows, ordered, final=final)
    if name == "join":
        return _pairs(rows, ordered, final=final)
    return _windows(rows, ordered, final=final)


def _running(
    rows: Sequence[Row], output: Sequence[Mapping[str, Any]], *, split: bool, final: bool, last: bool
) -> Iterable[str]:
    before: dict[int, int] = {}
    for row in output:
        key, total, count = row["k"], row["s"], row["n"]
        if total.bit_count() != count:
            yield f"key {key} has {count} rows, and their sum is {total:b}: a row is lost or doubled"
        elif not split and total != (1 << count) - 1:
            yield f"key {key} has {count} rows, but not its first ones: {total:b}"
        elif before.get(key, 0) & ~total or (before.get(key, 0) == total and not split):
            yield f"key {key} had the rows {before.get(key, 0):b}, and then {total:b}"
        elif last and row["last"] != 1 << (count - 1):
            yield f"key {key} has {count} rows, but the last one was {row['last']:b}"
        before[key] = total
    wanted: dict[int, int] = {}
    for k, v, _ in rows:
        wanted[k] = wanted.get(k, 0) | v
    for key, total in before.items():
        if total & ~wanted.get(key, 0):
            yield f"key {key} has rows that nobody sent: {total:b} of {wanted.get(key, 0):b}"
    if final:
        for key, total in wanted.items():
            if before.get(key, 0) != total:
                yield f"key {key} ended with the rows {before.get(key, 0):b} of {total:b}"


def _first(rows: Sequence[Row], output: Sequence[Mapping[str, Any]], *, final: bool) -> Iterable[str]:
    seen: set[int] = set()
    for row in output:
        if row["k"] in seen:
            yield f"the first row of key {row['k']} came twice"
        if row["v"] != 1:
            yield f"row {row['v']:b} of key {row['k']} was taken for its first"
        seen.add(row["k"])
    missing = {k for k, _, _ in rows} - seen
    if final and missing:
        yield f"the first row of key {min(missing)} never came"


def _pairs(rows: Sequence[Row], output: Sequence[Mapping[str, Any]], *, final: bool) -> Iterable[str]:
    left, right = ([(k, v) for k, v, _ in rows if side_of(v) == side] for side in (0, 1))
    wanted = {(k, v, other) for k, v in left for same, other in right if k == same}
    for row in output:
        pair = (row["k"], row["left_v"], row["right_v"])
        if pair not in wanted:
            yield f"the rows {pair[1]:b} and {pair[2]:b} of key {pair[0]} matched twice, or nobody sent them"
        wanted.discard(pair)
    if final and wanted:
        yield f"these key and rows never matched: {min(wanted)}"


def _windows(rows: Sequence[Row], output: Sequence[Mapping[str, Any]], *, final: bool) -> Iterable[str]:
    wanted: dict[tuple[int, int], int] = {}
    for k, v, t in rows:
        at = (k, t // 1_000_000 // WINDOW_S * WINDOW_S)
        wanted[at] = wanted.get(at, 0) | v
    for row in output:
        at = (row["k"], _seconds(row["window_start"]))
        total = wanted.pop(at, 0)
        if not total:
            yield f"the window {at[1]} s of key {at[0]} came twice, or has no row"
        elif (row["s"], row["n"]) != (total, total.bit_count()):
            yield f"the window {at[1]} s of key {at[0]} has the rows {row['s']:b} ({row['n']}), not {total:b}"
    if final and wanted:
        yield f"the window of key and second {min(wanted)} never came"


def _seconds(time: datetime) -> int:
    return int(time.timestamp())
