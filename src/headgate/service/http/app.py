"""The HTTP application. Requests carry a token in `Authorization: Bearer`; `/docs` describes every route."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from headgate.service.access import Access
from headgate.service.edge_limits import EdgeLimits
from headgate.service.http import (
    routes_deliveries,
    routes_queries,
    routes_service,
    routes_tenants,
    routes_usage,
)
from headgate.service.http.description import described
from headgate.service.http.edge import Edge
from headgate.service.http.errors import handle_errors
from headgate.service.http.identity import Identity
from headgate.service.http.page_files import add_page
from headgate.service.http.tails import Tails
from headgate.service.service import Service


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
    app.include_router(routes_deliveries.router)
    app.include_router(routes_usage.router)
    handle_errors(app)
    identity = Identity(service, limits, access)  # now, so that a wrong configuration is told at the start
    app.add_middleware(Edge, service=service, limits=limits, access=access, identity=identity)
    add_page(app)

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(described(app.openapi()), headers={"content-security-policy": DOCS_POLICY})

    return app


DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
