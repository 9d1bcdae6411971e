"""The pictures of the live page: `python -m headgate_lab.demo.page_pictures` writes them to docs/img.

It runs the demonstration's stream, whose hot keys move, through a stage in this process, with event times of
now. A row takes a fixed time on its channel, which is modelled, so that the pictures are the same on any
machine. Commits, decisions and page are as they are; the browser is Chromium by playwright.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.operators import agg
from headgate.operators.windows import Windows, tumbling
from headgate.stage.settings import Limits, Routing
from headgate.stage.sinks import Parquet
from headgate.stage.stage import KeyedStage
from headgate.testing import InProcess
from headgate.testing.watches import ModelledTime
from headgate.watch.live import open_page
from headgate_lab.demo.stream import Skew, batch

CHROMIUM = "/usr/bin/chromium"
BATCHES, PACE_US, EVERY_S = 24, 100.0, 0.4
"""At least so many batches, the time of a row, and the seconds between two batches."""
NAMES = (
    "ada",
    "ben",
    "cleo",
    "dan",
    "eva",
    "finn",
    "gita",
    "hugo",
    "iris",
    "jon",
    "kim",
    "lea",
    "max",
    "nora",
)
SHOTS = (
    ("live-page", 1280, "light", True),
    ("live-page-dark", 1280, "dark", True),
    ("live-page-whole", 1280, "light", False),
    ("live-page-phone", 390, "dark", False),
)
"""File, width, colours, and whether only its first parts are shown."""


def named(user: int) -> str:
    """A name for a key, because numbers are hard to read.

    >>> named(0), named(1234)
    ('ada-0', 'cleo-88')
    """
    return f"{NAMES[user % len(NAMES)]}-{user // len(NAMES)}"


def rows(skew: Skew, number: int) -> pa.Table:
    """A batch of the demonstration, with event times up to now."""
    table = batch(skew, number)
    users = [named(user) for user in table.column("user").to_pylist()]
    late = np.random.default_rng(number).exponential(400_000, len(users)).astype(np.int64)
    at = int(1e6 * time.time()) - late
    return pa.table({"user": users, "at": pa.array(at, pa.timestamp("us", "UTC"))})


def stage(folder: Path) -> KeyedStage[pa.Table]:
    """The stage that is watched."""
    return KeyedStage(
        InProcess(watch=ModelledTime(PACE_US)),
        key="user",
        operator=Windows(tumbling("5 seconds"), on="at", delay="2 seconds", n=agg.count()),
        checkpoint=str(folder / "checkpoints/users"),
        sink=Parquet(str(folder / "out")),
        routing=Routing(policy="flux-load", channels=8, bins=128),
        limits=Limits(memory="260KB"),
    )


def take(folder: Path) -> None:
    """Run the stream, and take the pictures."""
    from playwright.sync_api import sync_playwright

    skew = Skew(rows_per_batch=8000, shift_every=9, keys=6000, seed=7)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as play:
        watched = stage(Path(place))
        settings: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "planning": dict}
        with open_page([watched], name="checkpoints/users", state=lambda: "running", **settings) as page:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            tabs = []
            for name, width, scheme, first in SHOTS:
                view = {"width": width, "height": 1010}
                tab = browser.new_context(viewport=view, color_scheme=scheme).new_page()
                tabs.append((name, tab, first))
            for _, tab, _ in tabs:
                tab.goto(page.url)
            number, moved = 0, False
            while number < BATCHES or not moved:  # the last batch shows bins that have just moved
                entries = watched.journal()[-1:]
                moved = any(entry.decision.changed for entry in entries)
                watched.process(rows(skew, number), number, None)
                time.sleep(EVERY_S)
                number += 1
            for name, tab, first in tabs:
                tab.locator(f'body[data-batch="{number - 1}"]').wait_for(state="attached")
                if not first:
                    tab.click("#ask button")
                    tab.locator("#totals td").first.wait_for()
                tab.wait_for_timeout(1500)
                tab.screenshot(path=folder / f"{name}.png", full_page=not first)
            browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/img"))
