"""What a gate costs and saves, as the page says it, is what was measured; the goals are those that were asked for."""

import json
from pathlib import Path

import pytest

from headgate.errors import ConfigError
from headgate_lab.bench.faucet import PARTS, chosen_parts
from headgate_lab.bench.faucet.page import (
    BEGIN,
    PAGE,
    PROFILE,
    PROFILE_BEGIN,
    RESULTS,
    written,
    written_profile,
)

ROOT = Path(__file__).parents[3]


def test_the_page_has_the_figures_of_the_results_file() -> None:
    text, report = (ROOT / PAGE).read_text(), json.loads((ROOT / RESULTS).read_text())
    assert BEGIN in text
    assert written(text, report) == text, "run: python -m headgate_lab.bench.faucet.page"
    asked = {goal["name"]: goal["goal"] for goal in report["goals"]}
    assert asked["time behind the gate over time without, at the plateau"] == "<= 1.05x"
    assert asked["memory without a gate over memory behind it"] == ">= 10x"
    assert not report["machine"].get("quick")


def test_the_page_has_the_profile() -> None:
    text, report = (ROOT / PAGE).read_text(), json.loads((ROOT / PROFILE).read_text())
    assert PROFILE_BEGIN in text
    assert written_profile(text, report) == text, "run: python -m headgate_lab.bench.faucet.page"


def test_parts_are_chosen_by_name() -> None:
    assert chosen_parts([]) == tuple(PARTS)
    assert chosen_parts(["cliques", "gate"]) == ("gate", "cliques")
    with pytest.raises(ConfigError, match="stragglers"):
        chosen_parts(["straglers"])
