"""The page: a few files that a browser loads from here, and from nowhere else."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse

FOLDER = Path(__file__).with_name("page")
DOM = Path(str(files("headgate.watch") / "page" / "dom.js"))
"""Elements and numbers: the page of a stream has the same."""
TYPES = {".js": "text/javascript", ".css": "text/css"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a browser may do for the page: run its own scripts, and ask this service."""


def page_files() -> dict[str, Path]:
    """The files beside the page itself, by their paths."""
    found = [path for path in FOLDER.iterdir() if path.suffix in TYPES]
    return {f"/page/{path.name}": path for path in [*sorted(found), DOM]}


def add_page(app: FastAPI) -> None:
    """Serve the page at `/`. Files are read once, so what is served belongs together."""
    text = (FOLDER / "index.html").read_text(encoding="utf-8")
    headers = {"content-security-policy": POLICY}

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(text, headers=headers)

    for where, path in page_files().items():
        _serve(app, where, path.read_bytes(), TYPES[path.suffix])


def _serve(app: FastAPI, where: str, body: bytes, kind: str) -> None:
    @app.get(where, include_in_schema=False)
    async def file() -> Response:
        return Response(body, media_type=kind)
