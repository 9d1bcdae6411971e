"""The page for operators: its code and its commands run, and print what it shows, but for figures.

`HEADGATE_WRITE_PAGES=1` writes what they print now into the page.
"""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.pages import consoles, played, shape, without_consoles

from headgate.observe.rules import ALERTS

PAGE = Path(__file__).parents[2] / "docs" / "faq" / "symptoms.md"
PRINTED = ("busiest", "the policy found nothing to change", "refused: key_too_hot: 7")
"""What the commands print, whatever was measured."""


@pytest.mark.classic
def test_the_page_shows_what_is_printed(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    now = played(PAGE, {"__name__": "page"}, tmp_path)
    if os.environ.get("HEADGATE_WRITE_PAGES"):
        PAGE.write_text(now)
    assert shape(without_consoles(now)) == shape(without_consoles(PAGE.read_text()))
    for said in (consoles(now), consoles(PAGE.read_text())):
        for words, text in zip(PRINTED, said, strict=True):
            assert words in " ".join(text.split())


def test_the_alerts_on_the_page_exist_and_none_is_left_out() -> None:
    named = set(re.findall(r"`(Headgate\w+)`", PAGE.read_text()))
    assert named == {alert.name for alert in ALERTS} - {"HeadgateServiceDown"}
