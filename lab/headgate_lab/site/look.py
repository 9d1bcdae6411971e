"""Looks at the built site in a real browser: `python -m headgate_lab.site.look SITE OUT`.

It takes a picture of each kind of page at two widths, light and dark, and fails if a page asks any other host for anything,
logs an error, or is wider than its window. The browser is Chromium by playwright.
"""

from __future__ import annotations

import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CHROMIUM = "/usr/bin/chromium"
KINDS = (
    "index", "start/first-stream", "port/group-by", "recipes/hot-keys", "operate/metrics", "understand/key-bin-channel",
    "understand/simulator", "reference/direct", "reference/cli", "reference/errors", "reference/api/operators", "research/flux",
    "compare", "faq/index", "faq/glossary", "notebooks/tour", "project/changelog",
)  # fmt: skip
"""One page of each kind."""
WIDTHS = ((1280, "light"), (390, "dark"))


def look(site: Path, out: Path | None, kinds: tuple[str, ...] = KINDS) -> list[str]:
    """What is wrong with the pages, as a browser sees them. Pictures go to `out`."""
    from playwright.sync_api import sync_playwright

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: Any, **options: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_port}"
    problems: list[str] = []
    try:
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for width, scheme in WIDTHS:
                page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
                page.on("request", partial(_foreign, here, problems))
                page.on("console", partial(_logged, problems))
                for kind in kinds:
                    page.goto(f"{here}/{kind}.html", wait_until="networkidle")
                    wide = page.evaluate("document.documentElement.scrollWidth")
                    if wide > width:
                        problems.append(f"{kind} is {wide} pixels wide in a window of {width}")
                    if out is not None:
                        out.mkdir(parents=True, exist_ok=True)
                        page.screenshot(path=str(out / f"{kind.replace('/', '-')}-{width}.png"))
                page.close()
            browser.close()
    finally:
        server.shutdown()
        server.server_close()
    return problems


def _foreign(here: str, problems: list[str], request: Any) -> None:
    if not request.url.startswith((here, "data:", "blob:")):
        problems.append(f"asks for {request.url}")


def _logged(problems: list[str], message: Any) -> None:
    if message.type == "error":
        problems.append(f"logs {message.text}")


if __name__ == "__main__":
    found = look(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
    print("\n".join(found) or "nothing is wrong")
    sys.exit(bool(found))
