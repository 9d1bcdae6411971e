"""The notebooks run, and show what is stored in them, but for figures and decisions.

`HEADGATE_WRITE_PAGES=1` stores what they show now.
"""

import json
import os
from pathlib import Path

import pytest
from tests import notebooks
from tests.pages import shape

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.mark.classic
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_shows_what_is_stored_in_it(
    inside: Path, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    stored = json.loads(path.read_text())
    now = notebooks.played(stored, {"__name__": "__main__"}, path.name, inside)
    if os.environ.get("HEADGATE_WRITE_PAGES"):
        path.write_text(notebooks.written(now))
        stored = now
    for cell, before in zip(now["cells"], stored["cells"], strict=True):
        told = notebooks.text_of(cell)
        if "varies" in cell["metadata"].get("tags", []):  # decisions, which depend on measured times
            assert told
        else:
            assert shape(told) == shape(notebooks.text_of(before))


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["capacity_planning", "port_a_job", "tour"]
