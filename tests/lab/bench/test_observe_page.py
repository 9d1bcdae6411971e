"""What it costs to be watched, as the page says it, is what was measured."""

import json
from pathlib import Path

from headgate_lab.bench.observe_page import PAGE, RESULTS, written

ROOT = Path(__file__).parents[3]


def test_the_page_has_the_figures_of_the_results_file() -> None:
    text, report = (ROOT / PAGE).read_text(), json.loads((ROOT / RESULTS).read_text())
    assert "<!-- bench observe: begin -->" in text
    assert written(text, report) == text, "run: python -m headgate_lab.bench.observe_page"
