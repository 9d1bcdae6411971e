"""The code of the pages about the service runs against one, without Spark."""

from pathlib import Path
from typing import Any

from tests.docs import DOCS
from tests.pages import played


def test_the_recipe_runs_and_prints_what_it_shows(served, tmp_path: Path) -> None:
    token = served.service.add_tenant("root", admin=True)
    text = (DOCS / "recipes/standing-queries.md").read_text()
    page = tmp_path / "standing-queries.md"
    page.write_text(text.replace("http://127.0.0.1:8620", served.url))
    names: dict[str, Any] = {"__name__": "page", "token": token}
    now = played(page, names, tmp_path)
    for client in ("admin", "bob"):
        names[client].close()
    assert now.replace(served.url, "http://127.0.0.1:8620") == text


def test_the_client_of_the_reference_runs(served, tmp_path: Path) -> None:
    page = tmp_path / "service.md"
    page.write_text((DOCS / "reference/service.md").read_text().replace("http://127.0.0.1:8620", served.url))
    names: dict[str, Any] = {"__name__": "page", "token": served.token}
    played(page, names, tmp_path)
    assert names["client"].query(names["number"])["sql"].startswith("SELECT lane")
    names["client"].close()
