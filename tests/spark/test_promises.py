"""The page of promises: its example runs, and every test that it names is there."""

import re
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate import agg

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text()


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
