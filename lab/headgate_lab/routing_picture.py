"""The picture of key, bin and channel: `python -m headgate_lab.routing_picture` writes docs/img/key-bin-channel.svg.

Keys hash to bins, one hot key has a bin of its own, a table puts each bin on a channel, and one bin is on
its way to another channel. The bins of the keys and both tables are computed by the library itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

import numpy as np

from headgate.cli import pictures
from headgate.control.plan import Plan, apply
from headgate.routing.key_hash import hash_key
from headgate.routing.table import Move, Pin, Table

PICTURE = Path("docs/img/key-bin-channel.svg")
KEYS = ("ann", "bob", "carl", "dora", "emil", "fay", "gus", "hot")
HOT = {"hot": 9.0}
"""Keys with many rows are drawn thick."""
BINS, CHANNELS, MOVES = 6, 3, 5
WIDTH, HEIGHT, TOP = 780, 372, 84
KEY_X, BIN_X, CHANNEL_X = 70, 330, 590
COLOURS = (pictures.BLUE, pictures.GREEN, pictures.GOLD)
STYLE = (
    f"text{{font:13px system-ui,sans-serif;fill:{pictures.BLACK}}}.soft{{fill:{pictures.INK};font-size:12px}}"
    ".head{font-weight:600;font-size:15px}.on{fill:#fff;font-weight:600}"
    "@media (prefers-color-scheme:dark){text{fill:#ddd}.soft{fill:#aaa}.on{fill:#fff}}"
)


def tables() -> tuple[Table, Table]:
    """The table before and after one bin moves; the key `hot` is pinned to a bin of its own."""
    start = Table.uniform(BINS, CHANNELS)
    pins = tuple(Pin(hash_key(key), BINS, key) for key in HOT)
    before = apply(Plan(policy="by hand", from_version=start.version, pins=pins), start, 1)
    source = before.channel_of[MOVES]
    move = Move(MOVES, source, (source + 1) % CHANNELS)
    return before, apply(Plan(policy="by hand", from_version=before.version, moves=(move,)), before, 2)


def picture() -> str:
    """The SVG."""
    before, after = tables()
    bins = before.bin_of_hash(np.array([hash_key(key) for key in KEYS], np.int64)).tolist()
    key_y, bin_y, channel_y = (_places(count) for count in (len(KEYS), len(before.bins), CHANNELS))
    parts = [*_heads()]
    for key, bin, y in zip(KEYS, bins, key_y, strict=True):
        colour = COLOURS[before.channel_of[bin]]
        parts.append(_curve(KEY_X + 34, y, BIN_X - 26, bin_y[bin], colour, HOT.get(key, 2.0)))
        parts.append(_text(KEY_X + 26, y + 4, key, "end"))
    for bin, y in zip(before.bins, bin_y, strict=True):
        was, now = before.channel_of[bin], after.channel_of[bin]
        if was != now:
            gone = _curve(BIN_X + 26, y, CHANNEL_X, channel_y[was], COLOURS[was], 2.0, dashed=True)
            parts += [gone, _curve(BIN_X + 26, y, CHANNEL_X, channel_y[now], pictures.RED, 4.0)]
        else:
            width = max(
                [HOT[key] for key, of in zip(KEYS, bins, strict=True) if of == bin and key in HOT],
                default=2.0,
            )
            parts.append(_curve(BIN_X + 26, y, CHANNEL_X, channel_y[now], COLOURS[now], width))
        fill = pictures.RED if was != now else COLOURS[now]
        parts.append(f'<rect x="{BIN_X - 26}" y="{y - 12}" width="52" height="24" rx="5" fill="{fill}"/>')
        parts.append(_text(BIN_X, y + 4, f"bin {bin}", "middle", "on"))
    for channel, y in enumerate(channel_y):
        parts.append(
            f'<rect x="{CHANNEL_X}" y="{y - 24}" width="110" height="48" rx="8" fill="{COLOURS[channel]}"/>'
        )
        parts.append(_text(CHANNEL_X + 55, y + 5, f"channel {channel}", "middle", "on"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="Keys hash to bins, and a table puts bins on channels."><style>{STYLE}</style>'
        f"{''.join(parts)}</svg>\n"
    )


def _heads() -> Iterator[str]:
    for x, head, words in (
        (KEY_X, "keys", "hashed, for ever"),
        (BIN_X, "bins", "the smallest set that moves"),
        (CHANNEL_X + 55, "channels", "one task each"),
    ):
        yield _text(x, 24, head, "middle", "head")
        yield _text(x, 42, words, "middle", "soft")
    yield _text(
        (KEY_X + BIN_X) / 2 + 10, HEIGHT - 8, "a hot key is pinned: a bin of its own", "middle", "soft"
    )
    yield _text(
        (BIN_X + CHANNEL_X) / 2 + 60,
        HEIGHT - 8,
        "the table moves a bin, with its state, between two batches",
        "middle",
        "soft",
    )


def _places(count: int) -> list[float]:
    """Heights of so many things, evenly spread."""
    step = (HEIGHT - TOP - 30) / count
    return [round(TOP + step * (at + 0.5) - 12, 1) for at in range(count)]


def _curve(
    x1: float, y1: float, x2: float, y2: float, colour: str, width: float, *, dashed: bool = False
) -> str:
    middle = (x1 + x2) / 2
    dash = ' stroke-dasharray="3 5"' if dashed else ""
    return (
        f'<path d="M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}" fill="none" stroke="{colour}" '
        f'stroke-width="{width:g}" stroke-opacity="0.75"{dash}/>'
    )


def _text(x: float, y: float, words: str, anchor: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{named}>{escape(words)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
