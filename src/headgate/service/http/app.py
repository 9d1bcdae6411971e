"""REST: the doors of the service. Tokens in `Authorization: Bearer`; errors as {"error", "message"} and the place in the SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse

from headgate import errors
from headgate.service.http import routes_queries, routes_service
from headgate.service.http.asking import problem
from headgate.service.service import Service

STATUS = {
    errors.QueryRefused: 422,
    errors.AccessDenied: 403,
    errors.NotFound: 404,
    errors.CursorGone: 410,
    errors.ConfigError: 400,
}
MOST_BYTES = 64 << 20
PAGE = Path(__file__).with_name("page.html")


def create_app(service: Service) -> FastAPI:
    """The service over HTTP."""
    app = FastAPI(
        title="headgate",
        description="Standing queries over streams: SQL in, results out, one Spark application for all.",
    )
    app.state.service = service
    app.include_router(routes_queries.router)
    app.include_router(routes_service.router)

    @app.exception_handler(errors.HeadgateError)
    def refused(request: Request, error: errors.HeadgateError) -> JSONResponse:
        return JSONResponse(problem(error), status_code=_status(error))

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return JSONResponse({"error": "malformed", "message": f"{where}: {first['msg']}"}, status_code=400)

    @app.middleware("http")
    async def bounded(request: Request, following: Any) -> Any:
        size = request.headers.get("content-length", "0")
        if not size.isdecimal() or int(size) > MOST_BYTES:
            return JSONResponse(
                {"error": "too-large", "message": f"at most {MOST_BYTES} bytes a request"}, status_code=413
            )
        return await following(request)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def page() -> HTMLResponse:
        return HTMLResponse(PAGE.read_text(encoding="utf-8"))

    return app


def _status(error: errors.HeadgateError) -> int:
    return next((code for kind, code in STATUS.items() if isinstance(error, kind)), 503)
