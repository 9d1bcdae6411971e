"""The bench of Kafka: how latency is computed, the page that has its numbers, and a small run on a real broker."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from headgate.cli.commands import app
from headgate_lab.bench.kafka import RESULTS
from headgate_lab.bench.kafka.latency import latencies, percentile, sliced
from headgate_lab.bench.kafka.page import BEGIN, END, written

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "kafka.md"


def test_a_record_counts_when_the_first_batch_behind_it_appears() -> None:
    sent = np.arange(6.0)
    ends = [{0: 1, 1: 1}, {0: 2, 1: 1}, {0: 2, 1: 3}]
    waited = latencies(sent, 2, ends, [10.0, 20.0, 30.0])
    assert waited[:4].tolist() == [10.0, 9.0, 18.0, 27.0]
    assert np.isnan(waited[4])
    assert waited[5] == 25.0


def test_what_was_sent_in_the_first_seconds_does_not_count() -> None:
    sent = np.arange(0.0, 10.0, 0.5)
    waited = np.where(sent < 4.0, 99.0, 0.001)
    assert percentile(sent, waited, 99, after_s=4.0) == pytest.approx(1.0)
    cut = sliced(sent, waited, after_s=4.0, slice_s=2.0)
    assert cut["p50"] == pytest.approx([1.0] * 3)


def test_the_page_has_the_numbers_of_the_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(BEGIN) == page.count(END) == 1
    if not (ROOT / RESULTS).exists():
        assert page.partition(BEGIN)[2].partition(END)[0].strip() == ""
        return
    report = json.loads((ROOT / RESULTS).read_text(encoding="utf-8"))
    assert not report["machine"]["quick"]
    assert written(page, report) == page, "run: python -m headgate_lab.bench.kafka.page"


@pytest.mark.full
@pytest.mark.timeout(600)
def test_it_runs_on_a_real_broker(java_home: str, tmp_path: Path) -> None:
    if shutil.which("mvn") is None:
        pytest.skip("needs Maven (mvn), to resolve Kafka's jars")
    got = CliRunner().invoke(app, ["bench", "kafka", "--quick", "--json"])
    assert got.exit_code == 0, got.output[-2000:]
    report: dict[str, Any] = json.loads(got.stdout)
    assert [result["name"] for result in report["results"]] == [
        "JSON records from Kafka, aggregated by key, to Parquet",
        "latency at 200 records/s, p50",
        "latency at 200 records/s, p99",
        "the sink, transactions of 2,000 records",
        "the sink, a transaction of 10 records",
    ]
    assert all(result["value"] > 0 and result["rival_value"] > 0 for result in report["results"])
    (answers,) = [goal for goal in report["goals"] if "answers" in goal["name"]]
    assert answers["ok"]
    assert "| the sink, a transaction of 10 records |" in written(PAGE.read_text(encoding="utf-8"), report)
