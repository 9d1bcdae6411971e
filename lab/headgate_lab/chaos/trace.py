"""A history as a page: what each process did over time, when files were there, and where faults struck.

The page needs nothing else: no script, no font, no network.
"""

from __future__ import annotations

from html import escape

from headgate_lab.chaos.play import Outcome
from headgate_lab.chaos.story import story

WIDTH, ROW, LEFT = 900, 22, 330
_GONE = ("remove",)
_MADE = ("write", "create", "copy", "link", "append", "replace", "rename")


def page(outcome: Outcome) -> str:
    """The page."""
    told = outcome.told
    last = max((entry[0] for entry in told), default=0) + 1
    bars = _processes(outcome, last) + _files(outcome, last)
    height = ROW * (len(bars) + 1)
    drawn = "\n".join(_row(number, *bar) for number, bar in enumerate(bars))
    verdict = outcome.problems[0] if outcome.failed else "all laws held"
    lines = "\n".join(escape(line) for line in story(outcome))
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>History {outcome.history.seed}</title>
<style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2rem; color: #1d2430; background: #fff }}
h1 {{ font-size: 1.3rem }} .bad {{ color: #b00020 }} .good {{ color: #1b6e3c }}
svg text {{ font-size: 11px; fill: #444 }} pre {{ font-size: 12px; white-space: pre-wrap }}
@media (prefers-color-scheme: dark) {{ body {{ background: #14181f; color: #dde3ec }} svg text {{ fill: #aab }} }}
</style>
<h1>History {outcome.history.seed}</h1>
<p class="{"bad" if outcome.failed else "good"}">{escape(verdict)}</p>
<p>From left to right: the changes of the world, {last} in all. Blue: a process at work. Green: a file is
there. Red: a fault strikes (rest the pointer on it).</p>
<svg viewBox="0 0 {WIDTH + LEFT} {height}" width="100%" role="img" aria-label="Processes and files over time">
{drawn}
</svg>
<pre>{lines}</pre>
</html>
"""


Bar = tuple[str, str, list[tuple[float, float]], list[tuple[float, str]]]
"""A label, a colour, spans (from, to) and marks (at, text), as parts of the width."""


def _processes(outcome: Outcome, last: int) -> list[Bar]:
    order: dict[str, tuple[list[tuple[float, float]], list[tuple[float, str]]]] = {}
    for change, process, what, path, remark in outcome.told:
        if not what:
            continue
        spans, marks = order.setdefault(process, ([], []))
        if spans and change - spans[-1][1] * last <= 1.5:
            spans[-1] = (spans[-1][0], change / last)
        else:
            spans.append((max(0, change - 1) / last, change / last))
        if remark:
            marks.append((change / last, f"{remark}: {what} {path}"))
    return [(name, "#3b76d6", spans, marks) for name, (spans, marks) in order.items()]


def _files(outcome: Outcome, last: int) -> list[Bar]:
    since: dict[str, int] = {}
    spans: dict[str, list[tuple[float, float]]] = {}
    for change, _, what, path, remark in outcome.told:
        if remark in ("kill", "error", "late", "late kill", "full", "no room") or remark.startswith("fails"):
            continue
        if what in _MADE:
            since.setdefault(path, change)
            spans.setdefault(path, [])
        elif what in _GONE and path in since:
            spans[path].append((since.pop(path) / last, change / last))
    for path, start in since.items():
        spans[path].append((start / last, 1.0))
    return [(path, "#4aa36c", parts, []) for path, parts in spans.items() if parts]


def _row(
    number: int, label: str, colour: str, spans: list[tuple[float, float]], marks: list[tuple[float, str]]
) -> str:
    y = ROW * (number + 1)
    short = label if len(label) <= 52 else f"...{label[-49:]}"
    parts = [f'<text x="0" y="{y}">{escape(short)}<title>{escape(label)}</title></text>']
    for start, end in spans:
        wide = max(2.0, (end - start) * WIDTH)
        parts.append(
            f'<rect x="{LEFT + start * WIDTH:.1f}" y="{y - 10}" width="{wide:.1f}" height="9" rx="2" fill="{colour}"/>'
        )
    for at, text in marks:
        parts.append(
            f'<circle cx="{LEFT + at * WIDTH:.1f}" cy="{y - 6}" r="5" fill="#d33"><title>{escape(text)}</title></circle>'
        )
    return "".join(parts)
