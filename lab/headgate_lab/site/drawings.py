"""The pictures of the pages about ideas: `python -m headgate_lab.site.drawings` writes them to docs/img.

Key, bin and channel have a picture of their own (`headgate_lab.routing_picture`), made by the library's own tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from headgate.cli.pictures import BLACK, BLUE, GOLD, GREEN, INK, NAVY, PALE, RED, VIOLET

FOLDER = Path("docs/img")
STYLE = (
    f"text{{font:13px system-ui,sans-serif;fill:{BLACK}}}.soft{{fill:{INK};font-size:12px}}"
    ".head{font-weight:600;font-size:15px}.on{fill:#fff;font-weight:600}.dark{fill:#1d2733}"
    "@media (prefers-color-scheme:dark){text{fill:#ddd}.soft{fill:#aaa}.on{fill:#fff}.dark{fill:#1d2733}}"
)
ARROW = (
    f'<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
    f'<path d="M0 0L10 5L0 10z" fill="{INK}"/></marker></defs>'
)


def box(x: float, y: float, width: float, height: float, words: str, fill: str, soft: str = "") -> str:
    """A box with words in it, and smaller words below them."""
    kind = "dark" if fill in (PALE, "#fff") else "on"
    middle = y + height / 2 + (5 if not soft else -3)
    parts = [
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7" fill="{fill}"/>',
        text(x + width / 2, middle, words, kind=kind),
    ]
    if soft:
        parts.append(text(x + width / 2, middle + 17, soft, kind=kind, small=True))
    return "".join(parts)


def text(
    x: float, y: float, words: str, *, kind: str = "", anchor: str = "middle", small: bool = False
) -> str:
    """Words at a place."""
    size = ' style="font-size:11px;font-weight:400"' if small else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}"{size}>{escape(words)}</text>'


def arrow(
    x1: float, y1: float, x2: float, y2: float, *, colour: str = INK, width: float = 2, dashed: bool = False
) -> str:
    """An arrow."""
    dash = ' stroke-dasharray="4 5"' if dashed else ""
    return (
        f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" stroke="{colour}" stroke-width="{width:g}" fill="none" '
        f'marker-end="url(#a)"{dash}/>'
    )


def batch() -> Iterator[str]:
    """The life of a batch, in six steps and one commit."""
    steps: Sequence[tuple[str, str, str]] = (
        ("source", "which ranges?", NAVY),
        ("gate", "how much?", VIOLET),
        ("exchange", "key, bin, channel", BLUE),
        ("operator", "state and rows", GREEN),
        ("commit", "one new file", RED),
        ("control", "the next table", GOLD),
    )
    for number, (name, what, fill) in enumerate(steps):
        x = 12 + number * 132
        yield box(x, 60, 112, 56, name, fill, what)
        if number:
            yield arrow(x - 19, 88, x - 2, 88)
    yield text(400, 28, "one batch", kind="head")
    yield f'<path d="M728 120C728 190 68 190 68 124" stroke="{INK}" stroke-width="2" fill="none" marker-end="url(#a)"/>'
    yield text(400, 196, "the next batch runs under the next table", kind="soft")
    yield text(596, 50, "before: nothing counts; after: all of it", kind="soft")


def move() -> Iterator[str]:
    """A bin moves between two batches: the table changes, and another channel reads the state."""
    for column, (title, owner) in enumerate((("batch 7, table 3", 0), ("batch 8, table 4", 1))):
        left = 30 + column * 400
        yield text(left + 165, 26, title, kind="head")
        for channel in range(2):
            y = 50 + channel * 84
            yield box(left + 190, y, 140, 60, f"channel {channel}", (BLUE, GREEN)[channel])
        yield box(left, 92, 92, 40, "bin 5", RED, "")
        yield arrow(left + 94, 112, left + 187, 80 + owner * 84, colour=RED, width=4)
        yield box(left + 60, 226, 210, 40, "checkpoint: state of bin 5", PALE)
        yield arrow(left + 200, 224, left + 250, 112 + owner * 84, dashed=True)
    yield text(395, 296, "Nothing is copied: the new channel reads what the last commit names.", kind="soft")


def gate() -> Iterator[str]:
    """A gate: waves wait, two are inside, and a probe tells when one is through."""
    yield text(110, 26, "waiting, as few rows", kind="head")
    for number in range(4):
        yield box(20 + number * 46, 80, 38, 50, f"{number + 5}", PALE)
    yield f'<rect x="222" y="48" width="14" height="116" rx="3" fill="{VIOLET}"/>'
    yield text(229, 40, "gate: 2", kind="soft")
    yield text(400, 26, "inside, as many rows", kind="head")
    for number, y in ((4, 52), (3, 112)):
        yield box(262, y, 60, 46, f"wave {number}", GOLD)
        yield arrow(324, y + 23, 356, y + 23)
        yield box(360, y, 190, 46, "rows, rows, rows", GREEN)
    yield text(640, 26, "through", kind="head")
    yield arrow(556, 105, 606, 105)
    for number in range(2):
        yield box(612 + number * 74, 80, 66, 50, f"wave {2 - number}", INK)
    yield (
        f'<path d="M640 136C640 224 240 224 230 168" stroke="{INK}" stroke-width="2" fill="none" '
        'marker-end="url(#a)" stroke-dasharray="4 5"/>'
    )
    yield text(430, 226, "wave 3 is through: wave 5 may enter", kind="soft")


def split_key() -> Iterator[str]:
    """A hot key in three pieces, each with state of its own; the driver merges them."""
    yield text(90, 26, "one hot key", kind="head")
    yield box(30, 104, 120, 52, "shop 7", RED, "half of all rows")
    yield text(370, 26, "three pieces", kind="head")
    for number, fill in enumerate((BLUE, GREEN, GOLD)):
        y = 50 + number * 62
        yield arrow(152, 130, 286, y + 25, colour=RED, width=4)
        yield box(290, y, 180, 50, f"channel {number}", fill, "state of its own")
        yield arrow(472, y + 25, 590, 130)
    yield text(670, 26, "one answer", kind="head")
    yield box(594, 104, 150, 52, "merged", NAVY, "n = 40 + 31 + 38")
    yield text(
        395,
        262,
        "A hash of the whole row picks the piece, so a repeated task sends each row the same way.",
        kind="soft",
    )


def policies() -> Iterator[str]:
    """The loop of control: report, policy, guard, table."""
    names = (
        ("report", "what the batch did", BLUE),
        ("policy", "what would be better?", GREEN),
        ("guard", "is it worth it?", GOLD),
        ("table", "of the next batch", RED),
    )
    for number, (name, what, fill) in enumerate(names):
        x = 20 + number * 196
        yield box(x, 50, 156, 58, name, fill, what)
        if number:
            yield arrow(x - 38, 79, x - 3, 79)
    yield arrow(490, 110, 490, 138)
    yield text(490, 156, "no: a refusal with a name, in the journal", kind="soft")
    yield f'<path d="M690 112C690 240 100 240 98 112" stroke="{INK}" stroke-width="2" fill="none" marker-end="url(#a)"/>'
    yield text(395, 232, "the next batch", kind="soft")
    yield text(250, 134, "a plan", kind="soft")


def placement() -> Iterator[str]:
    """Queries of one source live together, so that the source is sent to few servers."""
    ways = (
        ("at random: 6 streams", ((0, 1), (0, 1, 2), (2,))),
        ("placed: 3 streams", ((0,), (1,), (2,))),
    )
    for column, (title, where) in enumerate(ways):
        left = 20 + column * 400
        yield text(left + 175, 26, title, kind="head")
        for number, fill in enumerate((BLUE, GREEN, GOLD)):
            y = 52 + number * 66
            yield box(left, y, 110, 46, ("weather", "traffic", "prices")[number], fill)
            yield box(left + 230, y, 120, 46, f"server {number}", INK)
            for server in where[number]:
                yield arrow(left + 112, y + 23, left + 227, 75 + server * 66, colour=fill, width=3)
    yield text(395, 262, "A source is sent once to each server that has a query of it.", kind="soft")


def exactly_once() -> Iterator[str]:
    """A kill before the commit and one after it."""
    kills = (
        ("killed before", "computed again: nothing of it counted"),
        ("killed after", "published again: the same rows, the same number"),
    )
    for row, (name, words) in enumerate(kills):
        y = 56 + row * 112
        yield text(20, y + 26, name, kind="head", anchor="start")
        for number, (step, fill) in enumerate((("read", NAVY), ("compute", GREEN), ("commit", RED), ("publish", BLUE))):  # fmt: skip
            x = 150 + number * 122
            alive = number < (2 if row == 0 else 3)
            yield box(x, y, 100, 44, step, fill if alive else PALE)
            if number:
                yield arrow(x - 20, y + 22, x - 2, y + 22, dashed=not alive)
        x = 150 + (2 if row == 0 else 3) * 122 - 12
        yield f'<path d="M{x - 8} {y - 14}L{x + 8} {y + 58}M{x + 8} {y - 14}L{x - 8} {y + 58}" stroke="{RED}" stroke-width="3"/>'
        yield text(150, y + 72, words, kind="soft", anchor="start")
    yield text(325, 26, "The commit is one file that is created: it exists, or it does not.", kind="soft")


DRAWN: dict[str, tuple[Callable[[], Iterator[str]], int, int, str]] = {
    "batch": (batch, 800, 210, "The life of a batch: source, gate, exchange, operator, commit, control."),
    "move": (move, 790, 310, "A bin moves to another channel between two batches."),
    "gate": (gate, 790, 240, "A gate lets a wave in when an earlier one is through."),
    "split-key": (split_key, 790, 276, "A hot key is split into pieces, which are merged."),
    "policies": (policies, 800, 246, "Report, policy, guard, table."),
    "placement": (placement, 790, 276, "Queries of one source live together."),
    "exactly-once": (
        exactly_once,
        650,
        252,
        "What happens when a driver is killed before and after the commit.",
    ),
}
"""Name -> what draws it, width, height, and what it shows."""


def drawn(name: str) -> str:
    """The SVG of a picture."""
    parts, width, height, label = DRAWN[name]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(label)}"><style>{STYLE}</style>{ARROW}{"".join(parts())}</svg>\n'
    )


if __name__ == "__main__":
    for each in DRAWN:
        (FOLDER / f"{each}.svg").write_text(drawn(each), encoding="utf-8")
