"""The figures about sinks and kills in the docs are those of the results files."""

from pathlib import Path

import pytest

from headgate_lab.bench.sinks.page import PAGES, written

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_the_page_has_the_figures_of_the_results_files(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "<!-- kills: begin -->" in text or "<!-- sinks: begin -->" in text
    assert written(text, PAGES[page], ROOT) == text, "run: python -m headgate_lab.bench.sinks.page"
