"""The page about a hostile tenant has the figures of the results file."""

import json
from pathlib import Path

from headgate_lab.bench.tenants_page import BEGIN, PAGE, RESULTS, written

ROOT = Path(__file__).parents[3]


def test_the_page_has_the_figures_of_the_results_file() -> None:
    page = (ROOT / PAGE).read_text()
    assert BEGIN in page
    assert written(page, json.loads((ROOT / RESULTS).read_text())) == page
