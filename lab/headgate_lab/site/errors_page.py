"""The page of errors: every error that Headgate raises, what it means, and what to do."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path

from headgate import errors

REMEDIES: dict[str, str] = {
    name: " ".join(text.split())
    for name, text in tomllib.loads(
        (Path(__file__).parent / "remedies.toml").read_text(encoding="utf-8")
    ).items()
}
"""What to do about each error."""
HEAD = """# Errors

Each error says what happened, where, and what to do. This page lists all of them. They are in
`hg.errors`, and all derive from `hg.errors.HeadgateError`, so one `except` catches every error that
Headgate raises on purpose.
"""


def pages(problems: list[str]) -> dict[str, str]:
    """The page of errors; an error without a remedy is a problem."""
    named = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.HeadgateError) and name != "HeadgateError"
    }
    problems += [f"reference/errors.md: {name} has no remedy" for name in sorted(named - set(REMEDIES))]
    problems += [f"reference/errors.md: there is no error {name}" for name in sorted(set(REMEDIES) - named)]
    return {"reference/errors.md": "\n".join(_page(sorted(named & set(REMEDIES))))}


def _page(names: list[str]) -> Iterator[str]:
    yield HEAD
    for name in names:
        means = " ".join((inspect.getdoc(getattr(errors, name)) or "").split()).replace("``", "`")
        yield f"## {name}\n"
        yield f"{means}\n"
        yield f"**What to do.** {REMEDIES[name]}\n"
