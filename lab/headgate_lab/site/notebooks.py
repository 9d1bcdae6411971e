"""Notebooks as pages: their text, their code, and what it printed when they were run last."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def pages(folder: Path) -> dict[str, str]:
    """Name -> page, for every notebook of a folder."""
    return {
        f"notebooks/{path.stem.replace('_', '-')}.md": page(path) for path in sorted(folder.glob("*.ipynb"))
    }


def page(path: Path) -> str:
    """One notebook as Markdown."""
    book = json.loads(path.read_text(encoding="utf-8"))
    lines = [part for cell in book["cells"] for part in _cell(cell)]
    title, *rest = lines
    note = f"*This page is the notebook `notebooks/{path.name}`; a test runs it.*\n"
    return "\n".join([title, note, *rest])


def _cell(cell: Mapping[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield f"{text}\n"
        return
    yield f"```python\n{text}\n```\n"
    shown = (out.get("text") or out["data"]["text/plain"] for out in cell["outputs"])
    said = "".join(line for lines in shown for line in lines)
    if said:
        yield f"```text\n{said.rstrip()}\n```\n"
