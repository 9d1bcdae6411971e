"""What a session of Spark Connect cannot do is refused with a message that says what to do. With `--connect`."""

from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate import agg

pytestmark = pytest.mark.connect


def test_a_stage_is_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(hg.errors.ConfigError, match=r"a stage needs a classic .* hg\.read\(spark\) instead"):
        hg.Stage(key="id", operator=hg.Aggregate(n=agg.count()), checkpoint=str(tmp_path / "c"))(
            spark.range(3), 0
        )


def test_a_bounded_step_is_refused(spark: Any) -> None:
    with pytest.raises(hg.errors.ConfigError, match=r"hg\.bounded needs a classic Spark session"):
        hg.bounded(spark.range(3), lambda df: df)


def test_a_gate_is_refused(spark: Any, tmp_path: Path) -> None:
    stream = hg.read(spark).rows([{"user": 1}]).expand(lambda df: df, gate=hg.Gate(batch=10))
    results = stream.key_by("user").aggregate(n=agg.count()).write(hg.sinks.Memory())
    with pytest.raises(hg.errors.ConfigError, match="a gate needs a classic Spark session"):
        results.start(str(tmp_path / "c"))


def test_no_executor_is_counted_and_no_plan_is_seen(spark: Any) -> None:
    from headgate.spark import inside

    assert inside.executor_count(spark) == 1
    assert inside.shuffle_writes(spark, "group") is None
    assert inside.is_deterministic(spark.range(1)) is None
    assert inside.streaming_query_id(spark.range(1)) is None
