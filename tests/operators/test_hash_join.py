"""The join against the obvious one: rows of a dictionary."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headgate.operators.channel_run import ChannelRun
from headgate.operators.hash_join import HashJoin
from headgate.state.keys import KeySpec
from headgate.state.table import BinTable
from headgate.testing.engine import key_hashes

BUILD = pa.schema(
    [("id", pa.string()), ("name", pa.string()), ("price", pa.decimal128(9, 2)), ("n", pa.int32())]
)
PROBE = pa.schema([("k", pa.string()), ("v", pa.int64())])
KEY = KeySpec(("k",), (pa.string(),))
texts = st.none() | st.text(max_size=5)
values = st.tuples(texts, st.none() | st.decimals(-999, 999, places=2), st.none() | st.integers(-9, 9))
keys = st.sampled_from(["", "a", "b", "longer than eight bytes", "ä"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "replace", "delete"]), st.lists(st.tuples(keys, values), max_size=8)
    ),
    max_size=5,
)


class Frame:
    schema = BUILD


@given(STEPS, st.lists(st.none() | keys | st.just("nobody"), max_size=20), st.sampled_from(["inner", "left"]))
def test_it_equals_the_obvious_join(steps, probes, how) -> None:
    join = HashJoin(build=Frame(), on="id", how=how).with_build_columns(BUILD).bind(KEY, PROBE)
    table = BinTable.create(join.layout)
    held: dict[Any, Any] = {}
    for mode, rows in steps:
        operator = join.builder(mode)
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array([key for key, _ in rows], pa.string()),
                *(pa.array([v[i] for _, v in rows], BUILD.types[i + 1]) for i in range(3)),
            ],
            names=["k", *BUILD.names[1:]],
        )
        run = ChannelRun(operator, lambda _: table, 1)
        run.feed(batch, key_hashes(batch, KEY), pa.array([0] * len(rows), pa.int32()).to_numpy())
        run.finish()
        if mode != "append":
            held |= {key: [] for key, _ in rows}
        if mode != "delete":
            for key, value in rows:
                held.setdefault(key, []).append(value)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(probes, pa.string()), pa.array(range(len(probes)), pa.int64())], schema=PROBE
    )
    run = ChannelRun(join, lambda _: table, 1)
    run.feed(batch, key_hashes(batch, KEY), pa.array([0] * len(probes), pa.int32()).to_numpy())
    assert run.finish() == {}
    found = [tuple(row.values()) for out in run.output for row in out.to_pylist()]
    expected = []
    for number, key in enumerate(probes):
        matches = held.get(key, []) if key is not None else []
        expected += [(key, number, *match) for match in matches]
        if how == "left" and not matches:
            expected.append((key, number, None, None, None))
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
