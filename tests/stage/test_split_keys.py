"""Keys too hot for one channel: `rebuild` splits them for every operator that can combine rows, and
the output is that of a key that is whole. Real files, no Spark.
"""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.operators.test_combine_events import schema_of as all_columns

import headgate as hg
from headgate import agg
from headgate.errors import ConfigError
from headgate.routing.table import Pin
from headgate.stage.stage import KeyedStage
from headgate.state.keys import KeySpec
from headgate.state.section import extract
from headgate.storage import state_file
from headgate.storage.state_index import StateFile
from headgate.testing import InProcess, Trial, builders
from headgate.testing.engine import key_hashes

HOT, TIME = 42, pa.timestamp("us", tz="UTC")
KEY = KeySpec(("k",), (pa.int64(),))
GUARD = hg.policies.Guard(min_gain=0, cool_down_batches=0)
COUNTS: dict[str, Any] = {"n": agg.count(), "total": agg.sum("v")}
OPERATORS = {
    "aggregate": hg.Aggregate(**COUNTS),
    "tumbling": hg.Windows(hg.tumbling("50 us"), on="t", delay="20 us", **COUNTS),
    "hopping": hg.Windows(hg.hopping("50 us", every="20 us"), on="t", delay="20 us", emit="update", **COUNTS),
    "session": hg.Windows(hg.session("3 us"), on="t", delay="20 us", **COUNTS),
    "topk": hg.TopK(3, by="v"),
    "dedup": hg.Dedup(on="t", delay="30 us"),
}


def batch(number: int, rows: int = 120) -> pa.Table:
    """Nine rows of ten have one key; times scatter, values repeat."""
    keys = [HOT if i % 10 else i % 7 for i in range(rows)]
    times = [100 * number + i * 37 % 100 - (60 if i % 50 == 3 else 0) for i in range(rows)]
    arrays = [
        pa.array(keys),
        pa.array(times, pa.int64()).view(TIME),
        pa.array([i * 31 % 40 for i in range(rows)]),
    ]
    return pa.table(arrays, ["k", "t", "v"])


def emitted(operator: Any, policy: Any, batches: int = 9) -> tuple[list[list[str]], KeyedStage[pa.Table]]:
    """What each batch emits, in no order, with another driver in the middle."""
    engine, sink = InProcess(), hg.sinks.Memory()
    stages = [
        KeyedStage(
            engine,
            key="k",
            operator=operator,
            checkpoint=f"{engine.folder}/checkpoint",
            sink=sink,
            routing=hg.Routing(policy=policy, channels=4, bins=16, guard=GUARD),
            durable=False,
        )
        for _ in range(2)
    ]
    for number in range(batches):
        stages[number > 5].process(batch(number), number, None)
    stages[1].finish()
    return [sorted(map(str, rows.to_pylist())) for _, rows in sorted(sink.batches.items())], stages[1]


@pytest.mark.parametrize("operator", OPERATORS)
def test_rebuild_splits_a_key_and_the_output_is_the_same(operator) -> None:
    whole, before = emitted(OPERATORS[operator], "static")
    for report in (entry.report for entry in before.journal() if entry.report.rows):
        (rows,) = [key.rows for key in report.hot_keys if key.label == str(HOT)]
        late = 120 - report.rows
        assert 108 - late <= rows <= 108, "a row counts once, whatever it touches"
        assert report.row_imbalance >= report.row_bound - 1e-9
    split, stage = emitted(OPERATORS[operator], "rebuild")
    assert split == whole
    assert stage.opened is not None
    last = stage.opened.checkpoint.last
    assert last is not None
    ((lead, *others),) = last.table.splits.values()
    assert "at best 1." in stage.status().headline
    assert not {pin.bin for pin in others} & last.state.heads.keys(), "the state is in one place"
    assert lead.bin in last.state.bases
    pieces = {
        b.bin: b.rows for b in _with_rows(stage).report.bins if b.bin in (lead.bin, *(p.bin for p in others))
    }
    assert len(pieces) == len(others) + 1
    assert min(pieces.values()) > 10, "every channel has its part of the rows"


def _with_rows(stage: KeyedStage[pa.Table]) -> Any:
    return next(entry for entry in reversed(stage.journal()) if entry.report.rows)


def table(*channels: int, other: tuple[int, ...] = ()):
    """The hot key in pieces on these channels; `other` is another hot key with bins before its own."""
    (hot,) = set(key_hashes(pa.table({"k": pa.array([HOT])}), KEY).tolist())
    (cold,) = set(key_hashes(pa.table({"k": pa.array([1])}), KEY).tolist())
    pinned = [*((cold, c) for c in other), *((hot, c) for c in channels)]
    pins = tuple(Pin(h, 6 + i, "hot") for i, (h, _) in enumerate(pinned))
    return builders.table([0, 1, 2, 3, 0, 1, *(c for _, c in pinned)], channels=4, pins=pins)


def rows_of(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64())})


def test_pieces_with_state_of_their_own_are_merged() -> None:
    """As older versions left them: each piece had the state of its rows."""
    trial = Trial(hg.Aggregate(n=agg.count()), "k")
    trial.batch(rows_of(HOT, HOT, HOT, 1), table(0, 1))
    last, checkpoint = trial.committed, trial.stage.opened.checkpoint  # type: ignore[union-attr]
    state = extract(trial.table(6), trial.table(6).live, whole=True)
    name = f"{last.batch:012d}-00001-{last.run}-old.hgs"
    section = state_file.Piece(7, state_file.SNAPSHOT, state)
    state_file.write(trial.stage.store.child("state"), name, trial.operator.layout, [section])
    files = (*last.state.files, StateFile(name, last.batch, frozenset([7])))
    index = replace(last.state, files=files, bases={**last.state.bases, 7: last.batch})
    checkpoint.last = replace(last, state=index)
    assert trial.batch(rows_of(HOT, 1), table(0, 1)).to_pylist() == [{"k": 1, "n": 2}, {"k": HOT, "n": 7}]
    assert 7 not in trial.committed.state.heads
    assert trial.batch(rows_of(HOT), table()).to_pylist() == [{"k": HOT, "n": 8}]


def test_a_bin_that_another_key_had_before_is_empty() -> None:
    trial = Trial(hg.Windows(hg.tumbling("10 us"), on="t", delay="0 us", n=agg.count()), "k")

    def rows(*keys):
        times = pa.array([5] * len(keys), pa.int64()).view(TIME)
        return pa.table({"k": pa.array(keys, pa.int64()), "t": times})

    trial.batch(rows(1, 1, HOT), table(1, other=(0,)))  # key 1 in bin 6, the hot one in 7
    trial.batch(rows(1, HOT), table(0, 1))  # the hot one in 6 and 7
    trial.batch(rows(1, HOT), table(0, 1, other=(1, 2)))  # key 1 in 6 and 7, the hot one in 8 and 9
    assert trial.committed.state.heads.keys() & {6, 7, 8, 9} == {6, 8}
    assert set(trial.committed.state.due) <= {0, 1, 2, 3, 4, 5, 6, 8}
    trial.stage.finish()
    last = trial.output.batches[max(trial.output.batches)]
    assert {row["k"]: row["n"] for row in last.to_pylist()} == {1: 4, HOT: 3}


STAYS_WHOLE = {
    "Aggregate cannot split a key, because a=first('i') depends on the order": hg.Aggregate(a=agg.first("i")),
    "Windows cannot split a key, because b=last('i') depends on the order": hg.Windows(
        hg.tumbling("5 us"), on="t", delay="5 us", b=agg.last("i")
    ),
    "HistoryWindow cannot split a key": hg.HistoryWindow(3, "mean", of="f"),
}


@pytest.mark.parametrize("why", STAYS_WHOLE)
def test_what_stays_whole_says_why(why) -> None:
    bound = STAYS_WHOLE[why].bind(KEY, all_columns(KEY))
    assert bound.whole.startswith(why)
    assert bound.in_pieces() is None
    with pytest.raises(ConfigError, match="split=True, but"):
        hg.policies.Rebuild(split=True).fitted(bound.resources, whole=bound.whole)


def test_whatever_has_no_reason_to_stay_whole_can_be_split() -> None:
    columns = all_columns(KEY).append(pa.field("v", pa.int64()))
    for operator in OPERATORS.values():
        bound = operator.bind(KEY, columns)
        assert (bound.whole, bound.in_pieces() is None) == ("", False)
