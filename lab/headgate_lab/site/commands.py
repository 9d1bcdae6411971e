"""The reference of the command line, made from its help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from headgate.cli import app

HEAD = """# Commands

Every command, with its arguments and options. This page is made from the commands' own help:
`headgate COMMAND --help` prints the same. Commands that take time show progress, and most take
`--json`. Those marked *laboratory* come with the distribution `headgate-lab`.
"""
LABORATORY = ("demo", "bench", "reproduce", "chaos", "cliques", "rmat")


def pages() -> dict[str, str]:
    """The page of commands."""
    return {"reference/cli.md": "\n".join(_page())}


def _page() -> Iterator[str]:
    yield HEAD
    group: Any = get_command(app)
    for name, command in group.commands.items():
        yield from _command(f"headgate {name}", command, laboratory=name in LABORATORY)


def _command(path: str, command: Any, *, laboratory: bool = False) -> Iterator[str]:
    yield f"## {path}\n"
    if laboratory:
        yield "*Laboratory.*\n"
    yield f"{_plain(command.help)}\n"
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from (line.replace("## ", "### ", 1) for line in _command(f"{path} {name}", inner))
        return
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
    usage = " ".join([path, *(_argument(one) for one in arguments), *(["[OPTIONS]"] if options else [])])
    yield f"```text\n{usage}\n```\n"
    rows = [(_argument(one), one) for one in arguments] + [
        (", ".join([*one.opts, *one.secondary_opts]), one) for one in options
    ]
    if rows:
        yield "| argument or option | default | |"
        yield "|---|---|---|"
        for label, one in rows:
            yield f"| `{label}` | {_default(one)} | {_cell(getattr(one, 'help', '') or '')} |"
        yield ""


def _argument(one: Any) -> str:
    name = (one.metavar or one.name).upper().strip("[]")
    name = f"{name}..." if one.nargs == -1 else name
    return name if one.required else f"[{name}]"


def _default(one: Any) -> str:
    value = one.default
    if value is None or callable(value) or value is False or value in ((), []) or not _shown(value):
        return ""
    return f"`{_shown(value)}`"


def _shown(value: Any) -> str:
    text = (
        ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(getattr(value, "value", value))
    )
    return "" if "UNSET" in text.upper() or "<" in text else text


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", _plain(text)).replace("|", "\\|")


def _plain(text: str | None) -> str:
    """Help without the marks of the terminal; what looks like HTML is set as code."""
    text = re.sub(r"\[/?(?:bold|dim|italic|green|red|yellow)\]|\x08", "", text or "")
    return re.sub(r"<([\w ,.-]+)>", r"`<\1>`", text).strip()
