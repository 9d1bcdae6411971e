"""The HTTP application. Requests carry a token in `Authorization: Bearer`; `/docs` describes every route."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse

from headgate.service.http import routes_queries, routes_service
from headgate.service.http.errors import handle_errors
from headgate.service.service import Service

MAX_REQUEST_BYTES = 64 << 20
PAGE = Path(__file__).with_name("page.html")


def create_app(service: Service) -> FastAPI:
    """Make the application that serves a service."""
    app = FastAPI(
        title="headgate",
        description="Standing queries over streams: SQL in, results out, one Spark application for all.",
    )
    app.state.service = service
    app.include_router(routes_queries.router)
    app.include_router(routes_service.router)
    handle_errors(app)

    @app.middleware("http")
    async def limit_size(request: Request, call_next: Any) -> Any:
        size = request.headers.get("content-length", "0")
        if not size.isdecimal() or int(size) > MAX_REQUEST_BYTES:
            message = f"a request may have at most {MAX_REQUEST_BYTES} bytes"
            return JSONResponse({"error": "too-large", "message": message}, status_code=413)
        return await call_next(request)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def page() -> HTMLResponse:
        return HTMLResponse(PAGE.read_text(encoding="utf-8"))

    return app
