"""Errors as HTTP responses: {"error", "message"}, and for a refused query its line and column."""

from __future__ import annotations

import math
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from headgate.errors import (
    AccessDenied,
    Backlogged,
    ConfigError,
    CursorGone,
    HeadgateError,
    NotFound,
    QueryRefused,
    QuotaExceeded,
)

STATUS_CODES: dict[type[HeadgateError], int] = {
    QueryRefused: 422,
    AccessDenied: 403,
    QuotaExceeded: 429,
    NotFound: 404,
    CursorGone: 410,
    ConfigError: 400,
}
"""The first class that fits decides; any other error of ours is 503."""


def error_json(error: HeadgateError) -> dict[str, Any]:
    """An error as JSON."""
    body: dict[str, Any] = {"error": type(error).__name__, "message": _sendable(str(error))}
    if isinstance(error, QueryRefused):
        body |= {"error": error.reason, "line": error.line, "column": error.column}
    return body


def _sendable(message: str) -> str:
    """A message as UTF-8 can carry it, whatever it quotes."""
    return message.encode("utf-8", "backslashreplace").decode()


def _headers(error: HeadgateError) -> dict[str, str]:
    """When to come again, if the error says so."""
    return {"Retry-After": str(math.ceil(error.retry_after_s))} if isinstance(error, Backlogged) else {}


def handle_errors(app: FastAPI) -> None:
    """Make an application answer errors in this form."""

    @app.exception_handler(HeadgateError)
    def refused(request: Request, error: HeadgateError) -> JSONResponse:
        codes = (code for kind, code in STATUS_CODES.items() if isinstance(error, kind))
        return JSONResponse(error_json(error), status_code=next(codes, 503), headers=_headers(error))

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        message = _sendable(f"{where}: {first['msg']}")
        return JSONResponse({"error": "malformed", "message": message}, status_code=400)
