"""The page in a real browser."""

import re
from pathlib import Path

import numpy as np
import pytest
from tests.sql.world import rows_of

from headgate.service.http.app import PAGE

CHROMIUM = Path("/usr/bin/chromium")


def test_the_page_needs_nothing_from_elsewhere() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert not re.findall(
        r"""(?:src|href)=["'](?!docs|data:)|https?://(?!www\.w3\.org/2000/svg)|@import|url\(""", text
    )


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
        page.fill("#sql", "SELECT nope FROM alpha")
        page.click("#add button")
        page.get_by_text("there is no column 'nope'").wait_for()
        page.fill("#sql", "SELECT city, x FROM alpha WHERE x > 1")
        page.click("#add button")
        page.get_by_text("Nothing yet").wait_for()
        for _ in range(3):
            served.feed(rows)
        page.locator("#results tr").first.wait_for()
        shown = page.locator("#results tr").first.inner_text().split("\t")
        found, _ = served.service.read(served.ann, 0)
        assert shown[1] == found[-1]["values"]["city"]
        assert page.locator("#servers tr").count() == 3
        assert page.locator("#factor").inner_text() == "1.00"
        assert page.locator("#replication polyline").count() == 1
        assert page.locator("#queries").inner_text() == "1"
        assert page.locator("#values polyline").count() == page.locator("#times polyline").count() == 1
        assert [one.inner_text() for one in page.locator("#column option").all()] == ["x"]
        declared = page.locator("#declared tr").all_inner_texts()
        listed, _ = served.service.list_sources(served.ann, "", 100)
        for line, source in zip(declared, listed, strict=True):
            assert all(part in line for part in (source.name, "city varchar", "x double"))
        served.feed(rows)
        page.get_by_text("median of").wait_for()
        page.get_by_role("button", name="pause").click()
        page.get_by_role("button", name="resume").wait_for()
        assert served.service.get_query(served.ann, 0).to_json()["state"] == "paused"
        page.get_by_role("button", name="resume").click()
        page.get_by_role("button", name="pause").wait_for()
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_role("button", name="remove").click()
        page.get_by_text("Choose a query on the left").wait_for()
        assert served.service.queries.count() == 0
        assert faults == []
        browser.close()
