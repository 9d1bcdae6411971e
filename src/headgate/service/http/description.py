"""The REST description as a page of its own: no script, and nothing from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = """body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem } h3 { font: 600 15px ui-monospace, monospace; margin-bottom: 0 }
pre { background: #8881; padding: .6rem; overflow-x: auto } td { padding: 0 1rem 0 0; vertical-align: top }
:root { color-scheme: light dark }"""


def described(openapi: Mapping[str, Any]) -> str:
    """A page for a description in OpenAPI."""
    info = openapi["info"]
    by_tag: dict[str, list[str]] = {}
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            route = "".join(_route(method, path, operation, openapi))
            by_tag.setdefault(operation.get("tags", ["other"])[0], []).append(route)
    parts = "".join(f"<h2>{escape(tag)}</h2>{''.join(routes)}" for tag, routes in by_tag.items())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(info["title"])}: REST</title>'
        f"<style>{STYLE}</style><h1>{escape(info['title'])}: REST</h1><p>{escape(info['description'])}</p>"
        "<p>Requests carry <code>Authorization: Bearer TOKEN</code>. Errors are "
        '<code>{"error", "message"}</code>. The same for machines: <a href="openapi.json">openapi.json</a>.</p>'
        f"{parts}</html>"
    )


def _route(method: str, path: str, operation: Mapping[str, Any], openapi: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h3>{method.upper()} {escape(path)}</h3><p>{escape(operation.get('description', ''))}</p>"
    if parameters := operation.get("parameters"):
        lines = (
            f"<tr><td><code>{escape(one['name'])}</code><td>{escape(one['in'])}"
            f"<td>{'required' if one.get('required') else 'optional'}"
            for one in parameters
        )
        yield f"<table>{''.join(lines)}</table>"
    content = operation.get("requestBody", {}).get("content", {})
    for body in content.values():
        shown = json.dumps(_resolved(body["schema"], openapi), indent=2)
        yield f"<details><summary>body</summary><pre>{escape(shown)}</pre></details>"


def _resolved(schema: Any, openapi: Mapping[str, Any]) -> Any:
    """A schema without references."""
    if isinstance(schema, list):
        return [_resolved(part, openapi) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _resolved(openapi["components"]["schemas"][name], openapi)
    return {key: _resolved(part, openapi) for key, part in schema.items()}
