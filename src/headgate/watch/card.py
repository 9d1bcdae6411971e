"""A stage as a small picture for a notebook: its channels as bars against the mean. Pure, and without scripts."""

from __future__ import annotations

from html import escape
from typing import Any

from headgate.stage.shown import as_html, html_lines

WIDTH, ROW, LEFT, RIGHT = 560, 18, 26, 110
FILLS = ("#7fa8d1", "#b9d0e6")
CAME, GOES, REST, PINNED = "#2a9d8f", "#7b4fa3", "#80869055", "#c9a227"
MOST = 32
"""So many channels are drawn."""


def card(view: dict[str, Any], *lines: str) -> str:
    """What `model.stage_view` says, as HTML; `lines` are plain text above it."""
    title = f"{view['operator']} by {', '.join(view['key'])}"
    if view["batch"] is None:
        return as_html(html_lines(*lines, tag="b"), html_lines(title, "no batch yet"))
    load = view["load"]
    rate = f" ({view['rows_per_s']:,.0f} a second)" if view["rows_per_s"] else ""
    words = (
        f"batch {view['batch']:,}: {view['rows']:,} rows in {view['wall_ms']:,.0f} ms{rate}, busiest "
        f"{load['imbalance']:.2f}x the mean (rows {load['row_imbalance']:.2f}x, at best {load['row_bound']:.2f}x "
        f"with whole keys), table {view['table']} on {view['channels']} channels"
    )
    left = len(load["bars"]) - MOST
    more = [f"and {left:,} more channels"] if left > 0 else []
    return as_html(html_lines(*lines, tag="b"), html_lines(title, words), bars(load), html_lines(*more))


def bars(load: dict[str, Any]) -> str:
    """The channels, each bar made of its bins; the dashed line is the mean."""
    shown = load["bars"][:MOST]
    most = max([load["mean"], *(bar["value"] for bar in load["bars"])]) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / most
    came, goes = ({move["bin"] for move in load[name]} for name in ("came", "goes"))
    unit = " ms" if load["unit"] == "ms" else " rows"
    parts = []
    for place, bar in enumerate(shown):
        y, x = 4 + ROW * place, float(LEFT)
        parts.append(_text(LEFT - 6, y + 10, str(bar["channel"]), "end"))
        total = sum(part["rows"] for part in bar["segments"])
        for at, part in enumerate(bar["segments"]):
            wide = part["rows"] / total * bar["value"] * scale if total else 0.0
            fill = _fill(part, at, came, goes)
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{max(0.0, wide - 0.7):.1f}" height="12" fill="{fill}">'
                f"<title>{escape(_told(part))}</title></rect>"
            )
            x += wide
        parts.append(_text(WIDTH, y + 10, f"{bar['value']:,.0f}{unit}, {bar['of_mean']:.2f}x", "end"))
    at, bottom = LEFT + load["mean"] * scale, 4 + ROW * len(shown)
    parts.append(
        f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{bottom}" stroke="currentColor" stroke-dasharray="4 3"/>'
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {bottom}" width="{WIDTH}" style="max-width:100%;height:auto" role="img" '
        f'aria-label="load of each channel beside the mean">{"".join(parts)}</svg>'
    )


def _fill(part: dict[str, Any], at: int, came: set[int], goes: set[int]) -> str:
    if part["bin"] is None:
        return REST
    if part["bin"] in goes:
        return GOES
    if part["bin"] in came:
        return CAME
    return PINNED if part["pinned"] else FILLS[at % 2]


def _told(part: dict[str, Any]) -> str:
    if part["bin"] is None:
        return f"{part['bins']:,} small bins, {part['rows']:,} rows"
    key = f", hottest key {part['label']}" if part["label"] else ""
    return f"bin {part['bin']}: {part['rows']:,} rows, {part['keys']:,} keys{key}"


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="11" fill="currentColor" '
        f'font-family="system-ui,sans-serif">{escape(words)}</text>'
    )
