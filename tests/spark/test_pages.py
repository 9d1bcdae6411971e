"""Every page whose code needs nothing but a session: it runs word for word in an empty folder, and prints what it shows.

`HEADGATE_WRITE_PAGES=1` writes what is printed now into the pages.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.docs import DOCS, WITH_SPARK
from tests.pages import played


@pytest.mark.classic
@pytest.mark.parametrize("name", WITH_SPARK)
def test_the_page_runs_and_prints_what_it_shows(
    name: str, spark: Any, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = DOCS / name
    now = played(page, {"__name__": "page"}, inside)  # the page makes its session itself
    if os.environ.get("HEADGATE_WRITE_PAGES"):
        page.write_text(now)
    assert now == page.read_text()
