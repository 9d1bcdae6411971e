"""What a gate costs and saves, as the page says it, is what was measured; the goals are those that were asked for."""

import json
from pathlib import Path

import pytest
from tests.lab.bench.test_faucet_gate import cases

from headgate.errors import ConfigError
from headgate_lab.bench.faucet import PARTS, chosen_parts
from headgate_lab.bench.faucet.gate import KINDS, Query, judged
from headgate_lab.bench.faucet.page import (
    BEGIN,
    NO_PROFILE,
    PAGE,
    PROFILE_BEGIN,
    RESULTS,
    profile_table,
    written,
)
from headgate_lab.bench.faucet.runs import FaucetSizes

ROOT = Path(__file__).parents[3]


def test_the_page_has_the_figures_of_the_results_file() -> None:
    text, report = (ROOT / PAGE).read_text(), json.loads((ROOT / RESULTS).read_text())
    assert BEGIN in text
    assert PROFILE_BEGIN in text
    assert written(text, report) == text, "run: python -m headgate_lab.bench.faucet.page"
    asked = {goal["name"]: goal["goal"] for goal in report["goals"]}
    assert asked["time behind the gate over time without, at the plateau"] == "<= 1.05x"
    assert asked["memory without a gate over memory behind it"] == ">= 10x"
    assert not report["machine"].get("quick")


def test_the_profile_comes_from_the_runs_of_the_bench() -> None:
    report = judged(cases(), Query(Path(), FaucetSizes(), 1_000, 7), 500).results
    told = {"results": [one.as_json() for one in report]}
    lines = profile_table(told).splitlines()
    assert lines[0] == "| MB | waves of 500 | no gate |"
    assert len(lines) == 2 + len(KINDS) + 1
    assert "| memory that the run took | 100 | 2,000 |" in lines
    assert profile_table({"results": []}) == NO_PROFILE


def test_parts_are_chosen_by_name() -> None:
    assert chosen_parts([]) == ("gate", "stragglers", "cliques")
    assert chosen_parts(list(PARTS)) == tuple(PARTS)
    assert chosen_parts(["cliques", "gate"]) == ("gate", "cliques")
    with pytest.raises(ConfigError, match="stragglers"):
        chosen_parts(["straglers"])
