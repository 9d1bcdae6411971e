"""The pages as the site generator gets them: those of `docs/`, those of the project, and those made from the code."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from headgate_lab.site import api, commands, errors_page, notebooks, settings_page

PROJECT = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "lab/README.md": "project/laboratory.md",
    "benchmarks/README.md": "project/benches.md",
    "LICENCES.md": "project/licences.md",
}
"""Pages of the repository that the site shows too."""
HOME = {"README.md": "index.md"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)([^)#\s]*)(#[^)\s]*)?\)")


def staged(root: Path, pages: Path) -> list[str]:
    """Write all pages into a folder, anew, and return what is wrong with them."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(root / "docs", pages)
    problems: list[str] = []
    made = {**api.pages(problems), **commands.pages(), **errors_page.pages(problems)}
    made |= settings_page.pages(problems)
    made |= notebooks.pages(root / "notebooks")
    for name, text in made.items():
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        (pages / name).write_text(text, encoding="utf-8")
    for source, name in PROJECT.items():
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        text = (root / source).read_text(encoding="utf-8")
        (pages / name).write_text(_relinked(text, Path(source), Path(name), root, problems), encoding="utf-8")
    for page in sorted((root / "docs").rglob("*.md")):
        inside = page.relative_to(root / "docs")
        text = page.read_text(encoding="utf-8")
        text = _relinked(text, Path("docs") / inside, inside, root, problems)
        (pages / inside).write_text(text, encoding="utf-8")
    return problems


def _relinked(text: str, source: Path, name: Path, root: Path, problems: list[str]) -> str:
    """The text of a page whose links lead to other pages of the site, or are no links any more."""

    def follow(found: re.Match[str]) -> str:
        image, words, target, anchor = found[1], found[2], found[3], found[4] or ""
        there = os.path.normpath(source.parent / target)
        if there.startswith("docs" + os.sep):
            return f"{image}[{words}]({_relative(there.removeprefix('docs/'), name)}{anchor})"
        if there in PROJECT or there in HOME:
            return f"{image}[{words}]({_relative({**PROJECT, **HOME}[there], name)}{anchor})"
        if not (root / there).exists():
            problems.append(f"{source}: the link to {target} leads nowhere")
        return words if f"`{there}`" == words or "/" in words else f"{words} (`{there}`)"

    return LINK.sub(follow, text)


def _relative(target: str, page: Path) -> str:
    return os.path.relpath(target, page.parent)
