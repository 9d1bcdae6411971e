"""Tables of policies and controllers in the documentation are those of the results files."""

import json
from pathlib import Path

import pytest

from headgate_lab.bench.policy_pages import PARTS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_page_has_the_figures_of_the_results_file(part) -> None:
    page = (ROOT / part.page).read_text(encoding="utf-8")
    assert all(page.count(mark) == 1 for mark in part.marks)
    report = json.loads((ROOT / part.results).read_text(encoding="utf-8"))
    assert not report["machine"]["quick"]
    assert part.written(page, report) == page, "run: python -m headgate_lab.bench.policy_pages"
