"""The page in a real browser."""

import re
from pathlib import Path

import numpy as np
import pytest
from tests.sql.world import rows_of

from headgate.service.http.app import create_app
from headgate.service.http.page_files import FOLDER, page_files

CHROMIUM = Path("/usr/bin/chromium")


NOT_ON_THE_PAGE = {
    "GET /health": "it is for load balancers",
    "GET /metrics": "it is for Prometheus",
    "GET /queries/{number}/stream": "the page reads the same results by cursor",
}
OPERATION = re.compile(r'"((?:GET|POST|PUT|PATCH|DELETE) /[^"]*)"')


def texts():
    files = [FOLDER / "index.html", *page_files().values()]
    return {path.name: path.read_text(encoding="utf-8") for path in files}


def test_the_page_needs_nothing_from_elsewhere() -> None:
    foreign = r"""(?:src|href)=["'](?!docs|data:|page/)|https?://(?!www\.w3\.org/2000/svg)|@import|url\("""
    assert {name: found for name, text in texts().items() if (found := re.findall(foreign, text))} == {}


def test_the_page_sets_no_html_from_data() -> None:
    unsafe = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    assert {name: found for name, text in texts().items() if (found := re.findall(unsafe, text))} == {}


def test_a_person_can_do_on_the_page_all_that_rest_does(local) -> None:
    called = {found for text in texts().values() for found in OPERATION.findall(text)}
    paths = create_app(local.service).openapi()["paths"]
    offered = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert called - offered == set(), "the page calls what is not there"
    assert offered - called == NOT_ON_THE_PAGE.keys()


@pytest.mark.full
def test_the_page_in_chromium(served) -> None:
    if not CHROMIUM.exists():
        pytest.skip("needs Chromium: apt-get install chromium")
    sync = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    rows = rows_of(np.random.default_rng(1), 200)
    with sync.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page()
        faults = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(served.url)
        page.fill("#token", "guess")
        page.click("#gate button")
        page.get_by_text("this token is not known").wait_for()
        page.fill("#token", served.token)
        page.click("#gate button")
        page.get_by_text("ann (writer)").wait_for()
        page.fill("#add textarea", "SELECT nope FROM alpha")
        page.click("#add button")
        page.get_by_text("there is no column 'nope'").wait_for()
        page.fill("#add textarea", "SELECT city, x FROM alpha WHERE x > 1")
        page.click("#add button")
        page.get_by_text("Nothing yet").wait_for()
        for _ in range(3):
            served.feed(rows)
        page.locator("#query-results tbody tr").first.wait_for()
        shown = page.locator("#query-results tbody tr").first.inner_text().split("\t")
        found, _ = served.service.read(served.ann, 0)
        assert shown[1] == found[-1]["values"]["city"]
        assert page.locator("#queries").inner_text() == "1"
        assert page.locator("#query-results polyline").count() == 1
        assert page.locator("#query-results option").all_inner_texts() == ["x"]
        served.feed(rows)
        page.get_by_text("median of").wait_for()
        page.get_by_role("button", name="pause").click()
        page.get_by_role("button", name="resume").wait_for()
        assert served.service.get_query(served.ann, 0).to_json()["state"] == "paused"
        page.get_by_role("button", name="resume").click()
        page.get_by_role("button", name="pause").wait_for()
        page.get_by_role("link", name="Servers").click()
        page.locator("#operate-servers tbody tr").nth(2).wait_for()
        assert page.locator("#operate-time polyline").count() == 1
        page.get_by_role("link", name="Sources").click()
        page.locator("section tbody tr").first.wait_for()
        declared = page.locator("section tbody tr").all_inner_texts()
        listed, _ = served.service.list_sources(served.ann, "", 100)
        for line, source in zip(declared, listed, strict=True):
            assert all(part in line for part in (source.name, "city varchar", "x double"))
        page.get_by_role("link", name="Queries").click()
        page.set_viewport_size({"width": 390, "height": 844})
        page.get_by_role("button", name="remove").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_role("button", name="remove").click()
        page.get_by_role("button", name="really?").click()
        page.get_by_text("Choose a query on the left").wait_for()
        assert served.service.queries.count() == 0
        assert faults == []
        browser.close()
