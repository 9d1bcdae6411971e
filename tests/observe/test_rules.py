"""Alerts and the board: they name only what the vocabulary has, the files in the tree are the generated ones, and a real
Prometheus finds every trouble.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli import app
from headgate.cli.alerts import BOARD, RULES, files
from headgate.observe.board import board, expressions
from headgate.observe.rules import ALERTS, names_in, rule_file, unknown_names

OPS = Path(__file__).parents[2] / "ops"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="needs promtool (Debian's package prometheus)")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_names_what_the_vocabulary_has(alert) -> None:
    assert names_in(alert.expr)
    assert unknown_names(alert.expr) == set()


def test_the_board_names_what_the_vocabulary_has() -> None:
    for expr in expressions():
        assert names_in(expr)
        assert unknown_names(expr) == set(), expr


def test_a_name_that_is_not_in_the_vocabulary_is_found() -> None:
    assert unknown_names("rate(headgate_rows_totl[5m]) > headgate_lag_seconds") == {"headgate_rows_totl"}
    assert unknown_names("headgate_batch_seconds_bucket + headgate_batch_seconds_bukket") == {
        "headgate_batch_seconds_bukket"
    }


@pytest.mark.parametrize("name", [RULES, BOARD])
def test_the_files_in_the_tree_are_made_from_the_vocabulary(name) -> None:
    """If this fails: headgate alerts --out ops."""
    assert (OPS / name).read_text() == files()[name]


def test_panels_of_the_board_do_not_overlap() -> None:
    taken = set[tuple[int, int]]()
    panels = board()["panels"]
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_command_writes_the_files_and_lists_the_alerts(tmp_path) -> None:
    done = CliRunner().invoke(app, ["alerts", "--out", str(tmp_path), "--json"])
    assert [Path(path).name for path in json.loads(done.stdout)["written"]] == [
        "headgate-rules.yml",
        "headgate.json",
    ]
    assert (tmp_path / RULES).read_text() == rule_file()
    listed = json.loads(CliRunner().invoke(app, ["alerts", "--json"]).stdout)["alerts"]
    assert [alert["name"] for alert in listed] == [alert.name for alert in ALERTS]
    assert "HeadgateNoCommit" in CliRunner().invoke(app, ["alerts"]).stdout


@needs_promtool
@pytest.mark.full
def test_prometheus_reads_the_rules_and_they_fire_when_they_should(tmp_path) -> None:
    assert PROMTOOL is not None
    rules = OPS / RULES
    subprocess.run([PROMTOOL, "check", "rules", str(rules)], check=True, capture_output=True)
    firing = "\n".join(
        f"          - {{labels: '{{alertname=\"{alert.name}\"}}', value: 1}}" for alert in ALERTS
    )
    text = (Path(__file__).parent / "rules_test.yml").read_text()
    text = text.replace("RULES", str(rules)).replace("FIRING", firing)
    for alert in ALERTS:
        text = text.replace(f"REMEDY {alert.name}", alert.remedy)
    (tmp_path / "test.yml").write_text(text)
    done = subprocess.run(
        [PROMTOOL, "test", "rules", str(tmp_path / "test.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.full
def test_prometheus_reads_every_expression_of_the_board(tmp_path) -> None:
    assert PROMTOOL is not None
    lines = ["groups:", "  - name: board", "    rules:"]
    for number, expr in enumerate(expressions()):
        shown = expr.replace("$__rate_interval", "5m").replace("$query", ".*")
        lines += [f"      - record: board:{number}", f"        expr: {json.dumps(shown)}"]
    (tmp_path / "board.yml").write_text("\n".join(lines))
    done = subprocess.run(
        [PROMTOOL, "check", "rules", str(tmp_path / "board.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
