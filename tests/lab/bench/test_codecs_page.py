"""The table of codecs in docs/reference/kafka.md is that of the results file, and the bench runs."""

import json
from pathlib import Path

from headgate_lab.bench import run
from headgate_lab.bench.codecs_page import BEGIN, PAGE, RESULTS, written

ROOT = Path(__file__).parents[3]


def test_the_page_has_the_numbers_of_the_results() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert BEGIN in page
    report = json.loads((ROOT / RESULTS).read_text(encoding="utf-8"))
    assert written(page, report) == page, "run: python -m headgate_lab.bench.codecs_page"


def test_every_codec_gives_the_same_table() -> None:
    report = run("codecs", quick=True)
    assert {result.name.partition(",")[0] for result in report.results} == {"Avro", "Protobuf"}
    assert all(goal.ok for goal in report.goals if "differs" in goal.name)
