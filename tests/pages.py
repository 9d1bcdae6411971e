"""Runs a page of the documentation: its Python, its commands, and what they print.

A block of ```python``` runs in the names of the blocks before it. A block of ```text``` right after it is what it
prints. In a block of ```console```, a line `$ headgate ...` or `$ python FILE` runs, and the lines after it are what it
prints. A block with a title (```csv title="in/a.csv"```) is a file: it is written, and does not run by itself.
"""

import contextlib
import io
import linecache
import platform
import re
import runpy
import shlex
import textwrap
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from headgate.cli import app

BLOCK = re.compile(r"^( *)```(\w+)( [^\n]*)?\n(.*?)^ *```", re.S | re.M)
RUN = ("python", "text", "console")
WIDEST = 100
"""Lines that are longer are folded."""


def played(page: Path, names: dict[str, Any], here: Path) -> str:
    """The page, with what its code and its commands print now. The folder in which they run is called `/data`."""
    said = ""
    number = 0

    def play(block: re.Match[str]) -> str:
        nonlocal said, number
        indent, kind, mark, text = block.groups()
        title = re.search(r'title="([^"]+)"', mark or "")
        if title:
            (here / title[1]).parent.mkdir(parents=True, exist_ok=True)
            (here / title[1]).write_text(textwrap.dedent(text))
            return block[0]
        if kind not in RUN:
            return block[0]
        number += 1
        if kind == "python":
            name = f"<block {number} of {page.name}>"
            text = textwrap.dedent(text)
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)  # for kernels
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, name, "exec"), names)
            said = out.getvalue()
            return block[0]
        if kind == "console":
            said = "".join(command(line, here) for line in text.splitlines() if line.startswith("$ "))
        assert said, f"{page.name} shows what is printed, but nothing is: block {number}"
        return f"{indent}```{kind}{mark or ''}\n{_trimmed(said.replace(str(here), '/data'))}{indent}```"

    return BLOCK.sub(play, page.read_text())


def has_code(page: Path) -> bool:
    """Whether something on a page runs."""
    return any(
        kind in ("python", "console") or "title=" in (mark or "")
        for _, kind, mark, _ in BLOCK.findall(page.read_text())
    )


def shape(text: str) -> str:
    """A text without figures, rules and line breaks: what stays the same from run to run."""
    return " ".join(re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d[\d,.:T+-]*|─+", " ", text).split())


def consoles(text: str) -> list[str]:
    """What commands print."""
    return [said for _, kind, _, said in BLOCK.findall(text) if kind == "console"]


def without_consoles(text: str) -> str:
    """A page without what its commands print."""
    return BLOCK.sub(lambda block: "" if block[2] == "console" else block[0], text)


def command(line: str, here: Path | None = None) -> str:
    """A line `$ headgate ...` or `$ python FILE`, and what it prints."""
    if line.startswith("$ python "):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            runpy.run_path(str((here or Path()) / line.removeprefix("$ python ")), run_name="__main__")
        return f"{line}\n{out.getvalue()}"
    done = CliRunner().invoke(app, shlex.split(line)[2:])
    assert done.exit_code == 0, done.output
    return f"{line}\n{done.stdout}"


def _trimmed(said: str) -> str:
    lines = said.strip("\n").replace(platform.node(), "host").splitlines()
    return "".join(part.rstrip() + "\n" for line in lines for part in textwrap.wrap(line, WIDEST) or [""])
