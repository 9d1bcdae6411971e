"""Runs a notebook as Jupyter does, cell by cell in one set of names, in this process and with its Spark session.

A line `!headgate ...` runs the command. The value of a cell's last line is its result, shown as HTML if it can be.
"""

import ast
import contextlib
import io
import json
import linecache
import platform
from pathlib import Path
from typing import Any

from tests.pages import command


def played(notebook: dict[str, Any], names: dict[str, Any], title: str, here: Path) -> dict[str, Any]:
    """The notebook, with what its cells print and show now."""
    cells: list[dict[str, Any]] = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number = sum(cell["cell_type"] == "code" for cell in cells) + 1
            shown = _run("".join(cell["source"]), names, f"<cell {number} of {title}>", here)
            cell = {**cell, "execution_count": number, "outputs": _outputs(shown, number)}
        cells.append(cell)
    return {**notebook, "cells": cells}


def text_of(cell: dict[str, Any]) -> str:
    """What a cell prints, and the plain form of what it shows."""
    shown = (output.get("text") or output["data"]["text/plain"] for output in cell.get("outputs", []))
    return "".join(text for lines in shown for text in lines)


def written(notebook: dict[str, Any]) -> str:
    """The notebook as the text of a file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _run(source: str, names: dict[str, Any], name: str, here: Path) -> tuple[str, Any]:
    if source.startswith("!"):
        return _portable(command(f"$ {source[1:].strip()}").split("\n", 1)[1], here), None
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # for kernels
    tree, last = ast.parse(source), None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]  # an Expr has a value
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(tree, name, "exec"), names)
        value = eval(compile(last, name, "eval"), names) if last else None
    return _portable(out.getvalue(), here), value


def _portable(said: str, here: Path) -> str:
    return said.replace(str(here), "/data").replace(platform.node(), "host")


def _outputs(shown: tuple[str, Any], number: int) -> list[dict[str, Any]]:
    said, value = shown
    outputs: list[dict[str, Any]] = []
    if said:
        outputs.append({"name": "stdout", "output_type": "stream", "text": said.splitlines(keepends=True)})
    if value is not None:
        html = getattr(value, "_repr_html_", None)
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if html:
            data = {"text/html": html().splitlines(keepends=True)} | data
        outputs.append(
            {"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"}
        )
    return outputs
