"""The page about placement has the figures of the results file, and the goals are those that were asked for."""

import json
from pathlib import Path

from headgate_lab.bench.placement.page import BEGIN, PAGE, RESULTS, written

ROOT = Path(__file__).parents[3]


def test_the_page_has_the_figures_of_the_results_file() -> None:
    page, report = (ROOT / PAGE).read_text(), json.loads((ROOT / RESULTS).read_text())
    assert BEGIN in page
    assert written(page, report) == page, "run: python -m headgate_lab.bench.placement.page"
    assert [goal["goal"] for goal in report["goals"][:2]] == ["<= 1.02x", "<= 0.9x"]
    assert not report["machine"].get("quick")
