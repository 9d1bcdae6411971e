"""Runs a page of the documentation: its Python, its commands, and what they print.

A block of ```python``` runs in the names of the blocks before it. A block of ```text``` right after it is what it
prints. In a block of ```console```, a line `$ headgate ...` runs, and the lines after it are what it prints.
"""

import contextlib
import io
import linecache
import platform
import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from headgate.cli import app

BLOCK = re.compile(r"```(python|text|console)\n(.*?)```", re.S)
WIDEST = 100
"""Lines that are longer are folded."""


def played(page: Path, names: dict[str, Any], here: Path) -> str:
    """The page, with what its code and its commands print now. The folder in which they run is called `/data`."""
    said = ""
    number = 0

    def play(block: re.Match[str]) -> str:
        nonlocal said, number
        number += 1
        kind, text = block.groups()
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                name = f"<block {number} of {page.name}>"
                linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)  # for kernels
                exec(compile(text, name, "exec"), names)
            said = out.getvalue()
            return block[0]
        if kind == "console":
            said = "".join(command(line) for line in text.splitlines() if line.startswith("$ "))
        assert said, f"{page.name} shows what is printed, but nothing is: block {number}"
        return f"```{kind}\n{_trimmed(said.replace(str(here), '/data'))}```"

    return BLOCK.sub(play, page.read_text())


def shape(text: str) -> str:
    """A text without figures, rules and line breaks: what stays the same from run to run."""
    return " ".join(re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d[\d,.:T+-]*|─+", " ", text).split())


def consoles(text: str) -> list[str]:
    """What commands print."""
    return [said for kind, said in BLOCK.findall(text) if kind == "console"]


def without_consoles(text: str) -> str:
    """A page without what its commands print."""
    return re.sub(r"```console\n.*?```", "", text, flags=re.S)


def command(line: str) -> str:
    """A line `$ headgate ...`, and what it prints."""
    done = CliRunner().invoke(app, shlex.split(line)[2:])
    assert done.exit_code == 0, done.output
    return f"{line}\n{done.stdout}"


def _trimmed(said: str) -> str:
    lines = said.strip("\n").replace(platform.node(), "host").splitlines()
    return "".join(part.rstrip() + "\n" for line in lines for part in textwrap.wrap(line, WIDEST) or [""])
