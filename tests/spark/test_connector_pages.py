"""The pages about tables of lakehouses and databases: their examples run, word for word and in order."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.databases import Database, postgres

__all__ = ["postgres"]
DOCS = Path(__file__).parents[2] / "docs"


URL = "postgresql://ann@localhost/shop"


def run(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, url: str = URL) -> int:
    """Run the examples of a page in a folder, and return how many there are."""
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.S)
    for number, block in enumerate(blocks):
        exec(compile(block.replace(URL, url), f"block {number} of docs/{page}.md", "exec"), names)
    return len(blocks)


def test_the_examples_of_the_page_about_lakehouses_run(spark: Any, tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    assert run("lakehouse", tmp_path, monkeypatch) == 4


def test_the_examples_of_the_page_about_databases_run(
    spark: Any, postgres: str, tmp_path: Path, monkeypatch: Any
) -> None:
    database = Database(postgres)
    assert run("databases", tmp_path, monkeypatch, postgres) == 2
    assert sorted(database.run('SELECT "user", n, total FROM users')) == [(1, 1, 2.0), (2, 1, 5.0)]
    database.run("DROP TABLE users, headgate_batches")


def test_the_files_that_the_pages_name_exist() -> None:
    for page in ("lakehouse", "databases"):
        for name in re.findall(r"`(tests/[\w/.]+)`", (DOCS / f"{page}.md").read_text()):
            assert (DOCS.parent / name).exists(), name
