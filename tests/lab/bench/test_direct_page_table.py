"""The table of speed in docs/research/performance.md is that of the results files."""

from pathlib import Path

import pytest

from headgate_lab.bench.direct.merge import merged
from headgate_lab.bench.direct.page import BEGIN, written

ROOT = Path(__file__).parents[3]


def test_the_page_has_the_numbers_of_the_results() -> None:
    page = (ROOT / "docs/research/performance.md").read_text(encoding="utf-8")
    if BEGIN not in page:
        pytest.fail("docs/research/performance.md has no place for the table of direct streams")
    assert written(page, merged(ROOT / "benchmarks/results")) == page, (
        "run: python -m headgate_lab.bench.direct.page"
    )
