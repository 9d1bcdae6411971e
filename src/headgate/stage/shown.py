"""How tables and texts look in a terminal of 80 columns, and in a notebook as HTML that needs nothing else."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from html import escape

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as Grid

COLUMNS = 80
"""The width of a terminal that shows every table whole."""
STYLE = (
    ".headgate{font:13px/1.45 system-ui,sans-serif;max-width:60rem;color:inherit}"
    ".headgate b{font-weight:600}"
    ".headgate table{font:inherit;border-collapse:collapse;margin:.4rem 0;font-variant-numeric:tabular-nums}"
    ".headgate th{font-weight:600;border-bottom:1px solid #80869080}"
    ".headgate th,.headgate td{padding:.15rem .6rem;text-align:right;vertical-align:top;background:none}"
    ".headgate .text{text-align:left;overflow-wrap:anywhere;white-space:normal}"
    ".headgate tr.strong td{font-weight:600}"
    ".headgate p{margin:.2rem 0;overflow-wrap:anywhere}"
    ".headgate pre{margin:.2rem 0;white-space:pre-wrap;font:12px/1.45 ui-monospace,monospace;background:none}"
    ".headgate meter,.headgate svg{vertical-align:middle}"
)


def numbers_grid(title: str | None, heads: Sequence[str], *, caption: str | None = None) -> Grid:
    """A table of numbers without vertical lines, so that ten columns fit into 80 characters.

    A cell that is too wide is folded, never cut.
    """
    grid = Grid(
        title=title, title_justify="left", caption=caption, caption_justify="left",
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0),
    )  # fmt: skip
    for head in heads:
        grid.add_column(head, justify="right", overflow="fold", vertical="bottom")
    return grid


def as_text(*parts: RenderableType) -> str:
    """What a terminal of 80 columns shows."""
    out = io.StringIO()
    console = Console(file=out, width=COLUMNS, markup=False, highlight=False)
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def as_html(*parts: str) -> str:
    """Parts that are HTML already, with their style."""
    return f'<div class="headgate"><style>{STYLE}</style>{"".join(parts)}</div>'


def html_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, text: int = 0, strong: Sequence[bool] = ()
) -> str:
    """A table whose last `text` columns are words and not numbers. Rows that are `strong` are bold."""
    first = len(heads) - text

    def cell(tag: str, at: int, value: str) -> str:
        kind = ' class="text"' if at >= first else ""
        return f"<{tag}{kind}>{escape(value)}</{tag}>"

    def line(tag: str, values: Sequence[str], *, bold: bool = False) -> str:
        cells = "".join(cell(tag, at, value) for at, value in enumerate(values))
        return f'<tr class="strong">{cells}</tr>' if bold else f"<tr>{cells}</tr>"

    body = "".join(line("td", row, bold=at < len(strong) and bool(strong[at])) for at, row in enumerate(rows))
    return f"<table><thead>{line('th', heads)}</thead><tbody>{body}</tbody></table>"


def html_lines(*lines: str, tag: str = "p") -> str:
    """Paragraphs of plain text."""
    return "".join(f"<{tag}>{escape(line)}</{tag}>" for line in lines)


class Explanation(str):
    """A text that a notebook shows as it is, and not as a quoted string.

    >>> print(Explanation("carried out"))
    carried out
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        return as_html(f"<pre>{escape(self)}</pre>")
