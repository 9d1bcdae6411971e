"""The page of a query in its own process: the steps that only the process knows. Without Spark."""

import json
import urllib.request

import pytest
from tests.watch.skewed import Skewed

from headgate.errors import ConfigError
from headgate.watch import server
from headgate.watch.live import StepTimes, cards, open_page


def data_of(page):
    with urllib.request.urlopen(f"{page.url}data", timeout=20) as answer:
        return json.load(answer)


def opened(stages, **options):
    settings = {
        "name": "users",
        "state": lambda: "running",
        "planning": lambda: {1: 7.5},
        "host": "127.0.0.1",
    }
    return open_page(stages, **{**settings, "port": 0, **options})


def test_steps_of_batches_that_ran_while_the_page_was_open(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(server, "NEAR", 0.0)
    skewed = Skewed(str(tmp_path / "c"), rows=200)
    skewed.run(1)
    with opened([skewed.stage]) as page:
        skewed.run(1)
        data = data_of(page)
    assert (data["name"], data["state"]) == ("users", "running")
    earlier, now = data["stages"][0]["timeline"]
    assert list(earlier["steps"]) == ["rest", "state", "work"]
    assert list(now["steps"]) == ["plan", "rest", "state", "work", "commit", "publish"]
    assert now["steps"]["plan"] == 7.5
    assert skewed.stage.watchers == [], "a page that is closed watches no more"


def test_only_the_newest_times_are_kept(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("headgate.watch.live.BATCHES", 2)
    skewed = Skewed(str(tmp_path / "c"), rows=50)
    times = StepTimes([skewed.stage], dict)
    skewed.run(4)
    assert list(times.of(0)) == [2, 3]
    times.stop()
    times.stop()


def test_a_page_that_cannot_be_served_watches_nothing(tmp_path) -> None:
    skewed = Skewed(str(tmp_path / "c"), rows=50)
    with opened([skewed.stage]) as page:
        port = int(page.url.rstrip("/").rpartition(":")[2])
        with pytest.raises(ConfigError, match="cannot listen"):
            opened([skewed.stage], port=port)
        assert len(skewed.stage.watchers) == 1


def test_cards_are_live_while_the_page_is_open(tmp_path) -> None:
    skewed = Skewed(str(tmp_path / "c"), rows=500)
    assert "no batch yet" in cards([skewed.stage], "running", None)
    skewed.run(2)
    page = opened([skewed.stage])
    assert f'src="{page.url}?small"' in cards([skewed.stage], "running", page)
    page.close()
    still = cards([skewed.stage], "stopped <now>", page)
    assert "<svg" in still
    assert "stopped &lt;now&gt;" in still
