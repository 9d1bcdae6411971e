"""The page about metrics has the tables that the vocabulary makes."""

import re
from pathlib import Path

from headgate.observe.page import PARTS, filled

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "metrics.md"


def test_the_tables_of_the_page_are_made_from_the_vocabulary() -> None:
    """If this fails: write `filled(text)` of `headgate.observe.page` into the page."""
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in text for name in PARTS)
    assert filled(text) == text


def test_the_files_that_the_page_names_exist() -> None:
    for target in re.findall(r"\]\(([\w./-]+)\)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / target).exists(), target
