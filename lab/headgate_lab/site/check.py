"""Reads a built site: every link and anchor leads somewhere, and no page loads anything from elsewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}


class _Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.anchors |= {named[name] for name in ("id", "name") if name in named}
        if tag == "a" and "href" in named:
            self.links.append(named["href"])
        if tag in LOADED and named.get(LOADED[tag]) and named.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(named[LOADED[tag]])


def faults(site: Path) -> list[str]:
    """What is wrong with the pages below a folder."""
    pages: dict[Path, _Page] = {}
    for path in sorted(site.rglob("*.html")):
        pages[path.resolve()] = page = _Page()
        page.feed(path.read_text(encoding="utf-8"))
    found = []
    missing: set[Path] = set()  # each is told once, though every page has the navigation
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        if name.name == "404.html":
            continue
        for target in page.loaded:
            if urlsplit(target).netloc:
                found.append(f"{name} loads {target} from elsewhere")
        for target in [*page.links, *page.loaded]:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            if there in missing:
                continue
            if not there.exists():
                missing.add(there)
                found.append(f"{name}: the link {target} leads nowhere")
            elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].anchors:
                found.append(f"{name}: the anchor {target} does not exist")
    return found
