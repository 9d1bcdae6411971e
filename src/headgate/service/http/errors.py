"""Errors as HTTP responses: {"error", "message"}, and for a refused query its line and column."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from headgate.errors import AccessDenied, ConfigError, CursorGone, HeadgateError, NotFound, QueryRefused

STATUS_CODES: dict[type[HeadgateError], int] = {
    QueryRefused: 422,
    AccessDenied: 403,
    NotFound: 404,
    CursorGone: 410,
    ConfigError: 400,
}
"""The first class that fits decides; any other error of ours is 503."""


def error_json(error: HeadgateError) -> dict[str, Any]:
    """An error as JSON."""
    body: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
    if isinstance(error, QueryRefused):
        body |= {"error": error.reason, "line": error.line, "column": error.column}
    return body


def handle_errors(app: FastAPI) -> None:
    """Make an application answer errors in this form."""

    @app.exception_handler(HeadgateError)
    def refused(request: Request, error: HeadgateError) -> JSONResponse:
        codes = (code for kind, code in STATUS_CODES.items() if isinstance(error, kind))
        return JSONResponse(error_json(error), status_code=next(codes, 503))

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return JSONResponse({"error": "malformed", "message": f"{where}: {first['msg']}"}, status_code=400)
