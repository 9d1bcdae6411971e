"""The live page in a real browser: every part is there, it follows the commits, and it fits a phone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.watch.skewed import NASTY, Skewed

import headgate as hg
from headgate.watch import server
from headgate.watch.reader import CheckpointReader
from headgate.watch.server import LiveView, Page

CHROMIUM = Path("/usr/bin/chromium")
PARTS = {
    "#figures dd": 8,
    "#bars rect.bin": 4,
    "#bars .mean": 1,
    "#bars .value": 4,
    "#timeline .batch": 8,
    "#timeline .mark": 3,
    "#timeline path.line.stroke-blue": 1,
    "#steps-legend span": 2,
    "#hot .key": 12,
    "#decided li details": 3,
    "#clock dd": 3,
    "#held dd": 4,
    "#waiting path.line": 1,
    "#state-bytes path.line": 1,
    "#policy option": 5,
}
"""What the page has of a run of eight batches, at least."""


@contextmanager
def opened(url: str, *, width: int = 1280, scheme: str = "light", expected: str = "nothing") -> Iterator[Any]:
    """The page in Chromium. No request leaves for another address, and nothing fails but for what is `expected`."""
    if not CHROMIUM.exists():
        pytest.skip("needs Chromium: apt-get install chromium")
    sync = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    faults: list[str] = []
    with sync.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        view = {"width": width, "height": 900}
        page = browser.new_context(viewport=view, color_scheme=scheme, reduced_motion="reduce").new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("request", lambda sent: None if sent.url.startswith(url) else faults.append(sent.url))
        page.on("dialog", lambda dialog: faults.append(dialog.message))
        page.goto(url)
        page.locator("#bars rect.bin").first.wait_for()
        yield page
        assert [fault for fault in faults if expected not in fault] == []
        browser.close()


@pytest.fixture
def live(tmp_path, monkeypatch):
    """A query that runs, and its page."""
    monkeypatch.setattr(server, "NEAR", 0.0)
    skewed = Skewed(str(tmp_path / "users"), limits=hg.Limits(memory="20KB"))
    skewed.run(8)
    with Page(LiveView(CheckpointReader(str(tmp_path / "users")))) as page:
        yield skewed, page


def wait_for_batch(page: Any, batch: int) -> None:
    page.locator(f'body[data-batch="{batch}"]').wait_for(state="attached")


def test_every_part_is_there_and_follows_the_commits(live) -> None:
    skewed, served = live
    with opened(served.url) as page:
        for selector, least in PARTS.items():
            assert page.locator(selector).count() >= least, selector
        assert page.locator("#figures dd").first.inner_text() == "7"
        before = page.locator("#timeline .batch").count()
        skewed.run(2)
        wait_for_batch(page, 9)
        assert page.locator("#figures dd").first.inner_text() == "9"
        assert page.locator("#timeline .batch").count() == before + 2
        assert page.locator('#timeline .batch[data-batch="9"]').count() == 1
        assert page.locator("#lag path.line").count() == 1
        last = skewed.stage.journal()[-1]
        shown = {
            int(words.get_attribute("data-channel")): words.text_content()
            for words in page.locator("#bars .value").all()
        }
        assert len(shown) == len(last.report.channels)
        for channel in last.report.channels:
            ms = float(shown[channel.channel].partition(" ms")[0])
            assert ms == pytest.approx(channel.busy_ms, abs=0.51)


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_a_phone_and_a_screen_in_the_dark_and_in_the_light(live, width, scheme) -> None:
    _, served = live
    with opened(served.url, width=width, scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for selector in (*PARTS, "section", "header"):
            if selector == "#policy option":
                continue
            box = page.locator(selector).first.bounding_box()
            assert box is not None, selector
            assert -1 <= box["x"] <= box["x"] + box["width"] <= width + 1, selector
        ink, paper = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        bright = [sum(map(int, colour[4:-1].split(","))) for colour in (ink, paper)]
        assert (bright[0] > bright[1]) == (scheme == "dark")
        page.click("#ask button")
        page.locator("#totals td").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.full
def test_moves_are_shown_where_they_go(live) -> None:
    skewed, served = live
    with opened(served.url) as page:
        while not (entry := skewed.stage.journal()[-1]).decision.changed:
            skewed.run(1)
        wait_for_batch(page, entry.report.batch)
        assert entry.decision.plan is not None
        for move in entry.decision.plan.moves:
            rect = page.locator(f'#bars rect[data-bin="{move.bin}"]')
            assert rect.get_attribute("data-channel") == str(move.source)
            assert "fill-goes" in (rect.get_attribute("class") or "")
            assert f"bin {move.bin}: {move.source} → {move.target}" in page.locator("#moves").inner_text()
        skewed.run(1)
        wait_for_batch(page, entry.report.batch + 1)
        for move in entry.decision.plan.moves:
            rect = page.locator(f'#bars rect[data-bin="{move.bin}"]')
            assert rect.get_attribute("data-channel") == str(move.target)
        rect.click()
        assert f"bin {move.bin} on channel {move.target}" in page.locator("#picked").inner_text()
        told = page.locator(f'#decided li[data-batch="{entry.report.batch}"]')
        told.locator("summary").click()
        assert "carried out: table" in told.locator("pre").inner_text()


@pytest.mark.full
def test_what_if_sets_another_policy_beside_the_run(live) -> None:
    skewed, served = live
    with opened(served.url, expected="400 (Bad Request)") as page:
        page.select_option("#policy", "static")
        page.click("#ask button")
        page.locator("#totals td").first.wait_for()
        assert page.locator("#beside path.line").count() == 2
        assert "replayed: static" in page.locator("#beside-legend").inner_text()
        assert "bins moved\t" in page.locator("#totals").inner_text()
        skewed.run(1)
        wait_for_batch(page, skewed.batches - 1)
        assert page.locator("#beside path.line").count() == 2, "the answer stays while batches come"
        page.evaluate("document.getElementById('policy').append(new Option('nope'))")
        page.select_option("#policy", "nope")
        page.click("#ask button")
        page.get_by_text("unknown policy 'nope'").wait_for()


@pytest.mark.full
def test_a_key_that_is_html_is_shown_as_text(tmp_path) -> None:
    skewed = Skewed(str(tmp_path / "<b>users"))
    skewed.run(2)
    with (
        Page(LiveView(CheckpointReader(str(tmp_path / "<b>users")))) as served,
        opened(served.url) as page,
    ):
        assert page.locator("#hot .key span").first.inner_text() == NASTY
        assert page.locator("#main img").count() == page.locator("header b").count() == 0
        assert page.locator("#name").inner_text().endswith("<b>users")


@pytest.mark.full
def test_several_stages_the_small_page_and_a_server_that_ends(tmp_path) -> None:
    for number in range(2):
        Skewed(str(tmp_path / f"q/stage-{number}"), rows=500).run(2 + number)
    served = Page(LiveView(CheckpointReader(str(tmp_path / "q"))))
    with opened(served.url) as page:
        page.get_by_role("button", name="stage 1").click()
        wait_for_batch(page, 2)
        page.goto(served.url + "?small")
        page.locator("#bars rect.bin").first.wait_for()
        assert page.locator("#decided").is_hidden()
        assert page.locator("#bars").is_visible()
    with opened(served.url, expected="ERR_FAILED") as page:
        page.route("**/data", lambda route: route.abort())
        page.get_by_text("has lost its server").wait_for()
        page.unroute("**/data")
        page.get_by_text("has lost its server").wait_for(state="hidden")
    served.close()
