"""The HTTP application. Requests carry a token in `Authorization: Bearer`; `/docs` describes every route."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from headgate.service.access import Access
from headgate.service.edge_limits import EdgeLimits
from headgate.service.http import routes_queries, routes_service, routes_tenants
from headgate.service.http.description import described
from headgate.service.http.edge import Edge
from headgate.service.http.errors import handle_errors
from headgate.service.http.identity import Identity
from headgate.service.http.tails import Tails
from headgate.service.service import Service

PAGE = Path(__file__).with_name("page.html")


def create_app(service: Service, limits: EdgeLimits | None = None, access: Access | None = None) -> FastAPI:
    """Make the application that serves a service."""
    limits, access = limits or EdgeLimits(), access or Access()
    app = FastAPI(
        title="headgate",
        description="Standing queries over streams: SQL in, results out, one Spark application for all.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.state.tails = Tails(service, limits.tails)
    app.include_router(routes_queries.router)
    app.include_router(routes_service.router)
    app.include_router(routes_service.public)
    app.include_router(routes_tenants.router)
    handle_errors(app)
    identity = Identity(service, limits, access)  # now, so that a wrong configuration is told at the start
    app.add_middleware(Edge, service=service, limits=limits, access=access, identity=identity)
    text = PAGE.read_text(encoding="utf-8")
    page_headers = {"content-security-policy": page_policy(text)}

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(text, headers=page_headers)

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(described(app.openapi()), headers={"content-security-policy": DOCS_POLICY})

    return app


DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"


def page_policy(text: str) -> str:
    """What a browser may do for the page: run the page's own script, which it knows by its hash, and ask this service."""
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
