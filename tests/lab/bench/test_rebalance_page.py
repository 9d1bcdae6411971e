"""The page about a channel that is short of memory has the figures of the results file."""

import json
from pathlib import Path

from headgate_lab.bench.rebalance_page import BEGIN, PAGE, RESULTS, written

ROOT = Path(__file__).parents[3]


def test_the_page_has_the_figures_of_the_results_file() -> None:
    page, report = (ROOT / PAGE).read_text(), json.loads((ROOT / RESULTS).read_text())
    assert BEGIN in page
    assert written(page, report) == page, "run: python -m headgate_lab.bench.rebalance_page"
    asked = {goal["name"]: goal["goal"] for goal in report["goals"]}
    assert asked["memory halved, 16 channels: static falls clearly"] == "<= 0.7x"
    assert asked["memory halved, 16 channels: flux-hybrid, speed after"] == ">= 0.95x"
    assert not report["machine"].get("quick")
