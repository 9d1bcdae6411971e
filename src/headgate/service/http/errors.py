"""Errors as HTTP responses: {"error", "message"}, and for a refused query its line and column."""

from __future__ import annotations

import math
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from headgate import logs
from headgate.errors import (
    AccessDenied,
    AlreadyExists,
    Backlogged,
    BadToken,
    CheckpointError,
    ConfigError,
    CursorGone,
    HeadgateError,
    NotFound,
    QueryRefused,
    QuotaExceeded,
    StorageFull,
    Superseded,
)

log = logs.logger("headgate.service")

STATUS_CODES: dict[type[HeadgateError], int] = {
    QueryRefused: 422,
    BadToken: 401,
    AccessDenied: 403,
    QuotaExceeded: 429,
    AlreadyExists: 409,
    NotFound: 404,
    CursorGone: 410,
    ConfigError: 400,
}
"""The first class that fits decides; any other error of ours is 503."""


class ErrorBody(BaseModel):
    """Why a request was refused."""

    error: str = Field(description="A short name of what is wrong, for machines.")
    message: str = Field(description="What is wrong, where, and what to do.")
    line: int | None = Field(None, description="Where in the text of a query it is.")
    column: int | None = None


MEANINGS = {
    400: "The request is malformed, or asks for what cannot be.",
    401: "The token is missing, unknown, expired or revoked.",
    403: "The token's role does not allow it, or another tenant owns what it is about.",
    404: "It does not exist, or is not for this tenant to know.",
    408: "The body did not come in time.",
    409: "The name is taken.",
    410: "The results are no longer kept.",
    413: "The body is too large.",
    422: "The query is not supported; the answer says why, and where in the text.",
    429: "The tenant, or the address, asks too often or has as much as it may have.",
    503: "The service cannot do it now.",
}


def _documented(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": ErrorBody, "description": MEANINGS[code]} for code in codes}


ERRORS = _documented(*MEANINGS)
"""What routes that need a token may answer besides success, as OpenAPI describes it."""
PUBLIC_ERRORS = _documented(400, 429)
"""The same for routes that need none."""


def also_json(errors: dict[int | str, dict[str, Any]]) -> dict[int | str, dict[str, Any]]:
    """The same for a route whose success is not JSON: its errors are."""
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{ErrorBody.__name__}"}}}
    return {code: {"description": one["description"], "content": body} for code, one in errors.items()}


def error_json(error: HeadgateError) -> dict[str, Any]:
    """An error as JSON."""
    body: dict[str, Any] = {"error": type(error).__name__, "message": _sendable(_public(error))}
    if isinstance(error, QueryRefused):
        body |= {"error": error.reason, "line": error.line, "column": error.column}
    return body


def _public(error: HeadgateError) -> str:
    """What a tenant is told. An error of the registry or of a file may name hosts and paths, so these are for the log."""
    inside = type(error) is HeadgateError or isinstance(error, CheckpointError)
    if not inside or isinstance(error, Superseded):
        return str(error)
    log.error("a request failed: %s", error)
    if isinstance(error, StorageFull):
        return "the service has no room left on its disk, and nothing was changed: try again later, or ask its operator"
    return "the service cannot do this now, and its log says why: try again later, or ask its operator"


def _sendable(message: str) -> str:
    """A message as UTF-8 can carry it, whatever it quotes."""
    return message.encode("utf-8", "backslashreplace").decode()


def _methods(app: FastAPI, request: Request) -> set[str]:
    """The methods that the path of a request takes."""
    paths: dict[str, dict[str, Any]] = app.openapi()["paths"]
    asked = request.url.path
    found = [asked] if asked in paths else [path for path in paths if compile_path(path)[0].match(asked)]
    return {method.upper() for path in found for method in paths[path]} or {"GET"}


def _headers(error: HeadgateError) -> dict[str, str]:
    """When to come again, if the error says so."""
    return {"Retry-After": str(math.ceil(error.retry_after_s))} if isinstance(error, Backlogged) else {}


def handle_errors(app: FastAPI) -> None:
    """Make an application answer errors in this form."""

    @app.exception_handler(HeadgateError)
    def refused(request: Request, error: HeadgateError) -> JSONResponse:
        codes = (code for kind, code in STATUS_CODES.items() if isinstance(error, kind))
        return JSONResponse(error_json(error), status_code=next(codes, 503), headers=_headers(error))

    @app.exception_handler(HTTPException)
    def unanswerable(request: Request, error: HTTPException) -> JSONResponse:
        names = {404: "NotFound", 405: "method-not-allowed"}
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers = {"allow": ", ".join(sorted(_methods(app, request)))}
        known = {404: "there is nothing at this path", 405: f"this path does not take {request.method}"}
        message = f"{known.get(error.status_code, error.detail)}: /docs has all routes"
        body = {"error": names.get(error.status_code, "refused"), "message": message}
        return JSONResponse(body, error.status_code, headers)

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        message = _sendable(f"{where}: {first['msg']}")
        return JSONResponse({"error": "malformed", "message": message}, status_code=400)
