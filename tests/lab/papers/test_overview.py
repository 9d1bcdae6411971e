"""The table over all papers, and the results file."""

import datetime
import json
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from headgate.cli import app
from headgate_lab import reproduce
from headgate_lab.papers import overview, results
from headgate_lab.papers.claims import Claim
from headgate_lab.papers.page import written

ROWS = {
    "gedik": [
        Claim("PX-1", "theta", 1.0, 1.0, "exact", ok=True),
        Claim("PX-32", "m", "rises", "falls", "order", ok=False, note="it falls"),
        Claim("PX-32 counted", "m", "rises", "rises", "order", ok=True),
    ],
    "flux": [
        Claim("FX-9", "2 s", 2.0, 0.8, "", ok=None),
        Claim("FX-2", "mbps", 450.0, 9.0, "5%", ok=False),
        Claim("FLUX-F1", "ours", "", 1.0, "", ok=True),
    ],
}


def test_rows_of_our_own_and_other_readings_do_not_count() -> None:
    counted = overview.tallies(ROWS)
    assert overview.totals(counted) == {
        "claims": 4, "held": 1, "not_held": 2, "nothing_to_check": 1,
        "by_paper": {
            "gedik": {"claims": 2, "held": 1, "not_held": 1, "nothing_to_check": 0},
            "flux": {"claims": 2, "held": 0, "not_held": 1, "nothing_to_check": 1},
        },
    }  # fmt: skip
    assert overview.headline(counted).startswith("two papers, 4 claims, 1 hold, 2 do not")
    data = json.loads(json.dumps(overview.all_as_json(ROWS), allow_nan=False))
    assert [paper["paper"] for paper in data["papers"]] == ["gedik", "flux"]
    assert len(data["papers"][0]["claims"]) == 3


@pytest.mark.parametrize("width", [80, 140])
def test_the_table_says_what_holds_and_why_not(width: int) -> None:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(overview.as_table(overview.tallies(ROWS)))
        text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.replace("\u2502", " ").split())
    for part in ("PX-1", "PX-32 it falls", "9, where 5% was", "FX-9"):
        assert all(word in words for word in part.split()), part


def test_a_figure_is_saved_beside_the_others_in_order(tmp_path) -> None:
    path, order = tmp_path / "papers.json", {"flux": ("a",), "gedik": ("one", "two")}
    day = datetime.date(2026, 1, 2)
    results.save(path, "gedik", {"two": ROWS["gedik"][1:]}, quick=True, order=order, at=day)
    results.save(path, "flux", {"a": ROWS["flux"]}, quick=False, order=order, at=day)
    results.save(path, "gedik", {"one": ROWS["gedik"][:1]}, quick=False, order=order, at=day)
    known = results.read(path)
    assert {paper: list(figures) for paper, figures in known.items()} == {
        "flux": ["a"],
        "gedik": ["one", "two"],
    }
    assert (known["gedik"]["one"]["quick"], known["gedik"]["two"]["quick"]) == (False, True)
    assert results.rows(known)["gedik"] == ROWS["gedik"]
    assert json.loads(path.read_text())["totals"]["claims"] == 4
    assert results.read(tmp_path / "none.json") == {}


def call(*words: str) -> Any:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, list(words))


def test_reproduce_saves_what_it_measured(tmp_path, monkeypatch) -> None:
    path = tmp_path / "papers.json"
    told = call("reproduce", "gedik", "fig1", "--save", str(path), "--json")
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["claims"][0]["id"] == "PX-11"
    assert list(results.read(path)["gedik"]) == ["fig1"]
    monkeypatch.setattr(reproduce, "papers", lambda: ("flux", "gedik"))
    monkeypatch.setattr(reproduce, "run", lambda name, figure, **_: ROWS[name])
    told = call("reproduce")
    assert told.exit_code == 0, told.output
    assert "two papers, 4 claims, 1 hold" in " ".join(told.stdout.split())
    assert json.loads(call("reproduce", "--json").stdout)["totals"]["held"] == 1


def test_a_page_needs_its_marks() -> None:
    marked = "a\n<!-- papers x: begin -->\nold\n<!-- papers x: end -->\nb"
    assert written(marked, "x", "new") == "a\n<!-- papers x: begin -->\n\nnew\n\n<!-- papers x: end -->\nb"
    with pytest.raises(ValueError, match="has no lines"):
        written("nothing", "x", "new")
