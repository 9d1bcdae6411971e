"""The page about direct streams: its examples run, word for word and in order, and what it says of the code is there."""

import re
from pathlib import Path
from typing import Any

import pytest

import headgate as hg

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "direct.md").read_text()


def test_the_examples_of_the_page_run(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    for number, block in enumerate(blocks):
        exec(compile(block, f"block {number} of docs/reference/direct.md", "exec"), names)
    assert len(blocks) == 22
    said = " ".join(capsys.readouterr().out.split())  # a status is folded at 80 columns
    assert "ended, batch 0: 3 rows in" in said
    assert "on 4 channels" in said
    assert "round(amount) AS whole'): by Spark, on rows (" in said


def test_the_names_on_the_page_exist() -> None:
    from headgate.spark.direct.query import Query
    from headgate.spark.direct.stream import Keyed, Written

    section = PAGE[PAGE.index("## The query") : PAGE.index("## What is committed together")]
    listed = [
        name for cell in re.findall(r"^\| (`.*?) \|", section, re.M) for name in re.findall(r"`(\w+)", cell)
    ]
    assert len(listed) > 10
    assert not [name for name in listed if not hasattr(Query, name)]
    methods = re.findall(r"^\| `(\w+)\(", PAGE[PAGE.index("## Keys and operators") :], re.M)
    assert {"aggregate", "windows", "dedup", "top", "history", "apply"} <= set(methods)
    assert not [name for name in methods if not hasattr(Keyed, name) and not hasattr(Query, name)]
    section = PAGE[PAGE.index("## Starting a query") : PAGE.index("## The query")]
    options = set(re.findall(r"^\| `(\w+)", section, re.M))
    assert options == set(Written.start.__kwdefaults__ or {}) | {"checkpoint"}
    section = PAGE[PAGE.index("## Errors, and the way on") : PAGE.index("## Sessions")]
    errors = [
        name for row in re.findall(r"^\| (`.*?) \|", section, re.M) for name in re.findall(r"`(\w+)`", row)
    ]
    assert len(errors) > 8
    assert not [name for name in errors if not issubclass(getattr(hg.errors, name), hg.errors.HeadgateError)]
