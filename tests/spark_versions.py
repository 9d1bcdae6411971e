"""What the runs of `script/matrix` found, as JSON, and as the table of `docs/reference/spark-versions.md`.

python tests/spark_versions.py record VERSION SESSION REPORT    # pytest's --junitxml, into the JSON and the page
"""

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "spark-versions.json"
PAGE = ROOT / "docs" / "reference" / "spark-versions.md"
BEGIN, END = "<!-- by script/matrix -->\n", "<!-- end -->\n"

DIRECT = "direct.test_answers::test_"
FEATURES: dict[str, list[str]] = {
    "direct stream: files and rows, `where`, `select`, aggregates": [
        f"{DIRECT}an_aggregate",
        f"{DIRECT}order",
        f"{DIRECT}steps_after",
        "direct.test_query::test_the_schema",
    ],
    "windows, `dedup`, `top`, `history`": [f"{DIRECT}windows"],
    "kernels, several keys in a row": [f"{DIRECT}a_kernel"],
    "join of two streams": [f"{DIRECT}two_streams"],
    "join with a table, and its refresh": [f"{DIRECT}a_join"],
    "late rows put aside": [f"{DIRECT}late"],
    "steps that only Spark can do, readers of Spark": [
        f"{DIRECT}what_only",
        f"{DIRECT}an_expression",
        f"{DIRECT}any_reader",
    ],
    "restart, moves, pins, rescale, stop": ["direct.test_query::"],
    "errors name the cause; the query goes on after it": ["direct.test_errors::"],
    "misuse is refused before the first batch": ["direct.test_refused::"],
    "Delta, Iceberg and database sinks": ["direct.test_tables::"],
    "`hg.Stage` in `foreachBatch`": ["test_stage::", "test_identity::", "test_promises::", "test_habits::"],
    "operators of a stage": [
        "test_operators::",
        "test_kernel::",
        "test_join::",
        "test_flow::",
        "test_pins::",
    ],
    "column types": ["test_types::", "test_payload_types::", "test_refused_types::"],
    "gates and `hg.bounded`": ["gates.", f"{DIRECT}an_expansion", "direct.test_tables::test_a_bounded"],
    "service": ["service."],
}
"""Features, and the beginnings of the names of their tests."""
ONLY_CLASSIC = {
    "`hg.Stage` in `foreachBatch`": "direct.test_connect::test_a_stage_is_refused",
    "operators of a stage": "direct.test_connect::test_a_stage_is_refused",
    "gates and `hg.bounded`": "direct.test_connect::test_a_gate_is_refused",
}
"""Features that a Connect session is refused, and the test of the refusal."""


def outcomes(report: Path) -> dict[str, str]:
    """Test -> passed, skipped, or the first line of its failure."""
    found = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        module = case.get("classname", "").removeprefix("tests.spark.")
        state = "passed"
        for what in case:
            if what.tag in ("failure", "error"):
                said = (what.get("message") or what.tag).strip()
                state = "failed: " + (said.splitlines() or [what.tag])[0][:200]
            elif what.tag == "skipped":
                state = "skipped"
        found[f"{module}::{case.get('name')}"] = state
    return found


def summed_up(found: dict[str, str]) -> dict[str, Any]:
    """One run: counts, failures by test, and what can be said of each feature."""
    features = {}
    for name, tests in FEATURES.items():
        mine = [state for test, state in found.items() if test.startswith(tuple(tests))]
        ran = [state for state in mine if state != "skipped"]
        passed = ran.count("passed")
        refusal = found.get(ONLY_CLASSIC.get(name, ""))
        if refusal == "passed":
            features[name] = "refused"
        elif not ran:
            features[name] = "not run"
        else:
            features[name] = "yes" if passed == len(ran) else f"{passed} of {len(ran)} tests"
    states = list(found.values())
    return {
        "passed": states.count("passed"),
        "skipped": states.count("skipped"),
        "failed": {test: state for test, state in found.items() if state.startswith("failed")},
        "features": features,
    }


def table(results: dict[str, Any]) -> str:
    """The page's table: a row for each feature, a column for each run."""
    runs = list(results)
    if not runs:
        return "No run has been recorded.\n"
    lines = ["| | " + " | ".join(runs) + " |", "|---|" + "---|" * len(runs)]
    for feature in FEATURES:
        cells = [results[run]["features"].get(feature, "not run") for run in runs]
        lines.append(f"| {feature} | " + " | ".join(cells) + " |")
    tests = [f"{results[run]['passed']} passed, {len(results[run]['failed'])} failed" for run in runs]
    lines.append("| tests | " + " | ".join(tests) + " |")
    return "\n".join(lines) + "\n"


def on_page(results: dict[str, Any], page: str) -> str:
    """The page with this table."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + "\n" + table(results) + "\n" + END + rest.partition(END)[2]


def record(version: str, session: str, report: Path) -> None:
    """Add a run to the results, and write the table anew."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results[f"{version} {session}"] = summed_up(outcomes(report))
    ordered = dict(sorted(results.items(), key=lambda item: (not item[0][0].isdigit(), item[0])))
    RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(on_page(ordered, PAGE.read_text()))


if __name__ == "__main__":
    record(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
