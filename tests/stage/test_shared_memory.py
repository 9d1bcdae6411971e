"""Two stages with one memory: the one that grows takes what the other does not need, and answers stay right."""

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import headgate as hg
from headgate import agg
from headgate.errors import ConfigError
from headgate.stage.stage import KeyedStage
from headgate.testing import InProcess

CHANNELS = 4


def batch(number: int, keys: int) -> pa.Table:
    draw = np.random.default_rng(number)
    return pa.table({"user": draw.integers(0, keys, 400), "amount": draw.random(400)})


def staged(folder, shared) -> KeyedStage[pa.Table]:
    return KeyedStage(
        InProcess(executors=2),
        key="user",
        operator=hg.Aggregate(n=agg.count()),
        checkpoint=str(folder / "stage"),
        sink=hg.sinks.Parquet(str(folder / "out")),
        routing=hg.Routing(channels=CHANNELS, bins=32),
        limits=hg.Limits(memory=shared),
        durable=False,
    )


def limits(stage):
    return [channel.memory_limit for channel in stage.journal()[-1].report.channels]


def held(stage):
    return [channel.state_bytes for channel in stage.journal()[-1].report.channels]


def test_the_larger_stage_gets_what_the_smaller_one_leaves(tmp_path) -> None:
    shared = hg.SharedMemory("64kB")
    small, large = staged(tmp_path / "small", shared), staged(tmp_path / "large", shared)
    for number in range(8):
        small.process(batch(number, 10), number, "query")
        large.process(batch(number, 100_000), number, "query")
    for mine, others, needs in zip(limits(large), limits(small), held(small), strict=True):
        assert mine > 32_000 > others >= min(needs, 16_000)
    assert sum(held(large)) > CHANNELS * 16_000
    with pytest.raises(ConfigError, match="shares its memory"):
        large.grant("1kB")
    large.drain()
    rows = ds.dataset(tmp_path / "large" / "out", format="parquet").to_table().to_pandas()
    counted = rows.groupby("user")["n"].max()
    expected = (
        pa.concat_tables([batch(number, 100_000) for number in range(8)]).to_pandas()["user"].value_counts()
    )
    assert counted.sort_index().to_dict() == expected.sort_index().to_dict()
