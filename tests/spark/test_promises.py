"""The page of promises: its example runs, and every test that it names is there."""

import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate import agg
from headgate.errors import CheckpointMismatch, SourceFailed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "understand" / "promises.md").read_text()


def test_the_tests_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`(tests/[\w/.]*)`", PAGE))
    assert len(named) > 5
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_example_reads_whole_batches(
    spark: Any, make_stage: Any, feed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    feed(
        make_stage(hg.Aggregate(n=agg.count()), sink=hg.sinks.Parquet("out/users")),
        [[(1, 1)], [(1, 2), (2, 2)]],
    )
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    names: dict[str, Any] = {"hg": hg, "spark": spark}
    exec(code, names)
    assert sorted((row.k, row.n) for row in names["rows"].collect()) == [(1, 1), (1, 2), (2, 1)]


def test_what_the_page_says_of_direct_streams(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "other").mkdir()
    checkpoint, backup = tmp_path / "ckpt", tmp_path / "backup"
    calls: list[int] = []

    def run(schema: str = "user long", folder: str = "in", out: str = "out", keys: int = 1) -> None:
        rows = hg.read(spark).files(str(tmp_path / folder), schema=schema)
        counts = rows.key_by("user").aggregate(n=agg.count())
        if keys == 2:
            counts = counts.key_by("n").aggregate(users=agg.count())
        sink = hg.sinks.Parquet(str(tmp_path / out))
        counts.write(sink).start(str(checkpoint), available_now=True).await_end()

    def restored(source: Path) -> None:
        shutil.rmtree(checkpoint)
        shutil.copytree(source, checkpoint)

    for number in range(2):
        pq.write_table(pa.table({"user": [number]}), tmp_path / "in" / f"{number}.parquet")
        run()
        if not number:
            shutil.copytree(checkpoint, backup)
    whole = shutil.copytree(checkpoint, tmp_path / "whole")
    with pytest.raises(CheckpointMismatch, match=r"in.*other"):
        run(folder="other")
    with pytest.raises(CheckpointMismatch, match="columns"):
        run(schema="user long, more long")
    with pytest.raises(CheckpointMismatch, match=r"/out, and this query names .*/elsewhere.*first_batch=2"):
        run(out="elsewhere")
    with pytest.raises(CheckpointMismatch, match="a query with one key, and this one has 2"):
        run(keys=2)
    restored(backup)
    with pytest.raises(CheckpointMismatch, match="batch"):
        run()
    restored(whole)
    shutil.rmtree(checkpoint / "source-0")
    with pytest.raises(SourceFailed, match="Restore it"):
        run()
    shutil.rmtree(checkpoint)
    with pytest.raises(CheckpointMismatch, match="another stage"):
        run()
    restored(whole)
    run()
    rows = spark.read.parquet(*hg.sinks.Parquet(str(tmp_path / "out")).files()).collect()
    assert sorted((row.user, row.n) for row in rows) == [(0, 1), (1, 1)]

    def again(rows: list[dict[str, int]]) -> None:
        counts = hg.read(spark).rows(rows).key_by("user").aggregate(n=agg.count())
        query = counts.write(lambda df, batch: calls.append(batch)).start(
            str(tmp_path / "rows"), available_now=True
        )
        query.await_end()

    again([{"user": 1}, {"user": 2}])
    again([{"user": 1}, {"user": 2}])
    assert calls == [0, 0], "a function is called again with the last batch"
    with pytest.raises(SourceFailed, match="give the same rows again"):
        again([{"user": 1}])
