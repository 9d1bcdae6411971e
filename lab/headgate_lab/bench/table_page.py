"""A table in a page of the documentation, between two marks, made from a results file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def placed(text: str, begin: str, end: str, table: str) -> str:
    """The page with the table in its place.

    >>> placed("a <!-- b --> old <!-- e --> z", "<!-- b -->", "<!-- e -->", "new").split()
    ['a', '<!--', 'b', '-->', 'new', '<!--', 'e', '-->', 'z']
    """
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n\n{table}\n\n{end}{rest.partition(end)[2]}"


def write(page: Path, results: Path, written: Callable[[str, dict[str, Any]], str]) -> None:
    """Write what a results file says into a page."""
    report = json.loads(results.read_text(encoding="utf-8"))
    page.write_text(written(page.read_text(encoding="utf-8"), report), encoding="utf-8")
