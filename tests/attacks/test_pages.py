"""The page and the REST description beside the token: nothing comes from elsewhere, and nothing else may run."""

import base64
import hashlib
import re

import httpx


def policy(answer) -> dict[str, str]:
    parts = answer.headers["content-security-policy"].split(";")
    return {name: rest for name, _, rest in (part.strip().partition(" ") for part in parts)}


def test_the_description_is_whole_without_a_network(served) -> None:
    answer = httpx.get(f"{served.url}/docs")
    assert not re.search(r"<script|https?://|@import|url\(", answer.text)
    assert policy(answer)["default-src"] == "'none'"
    assert "script-src" not in policy(answer)
    paths = httpx.get(f"{served.url}/openapi.json").json()["paths"]
    assert paths.keys() >= {"/queries/bulk", "/sources/{name}/events", "/sources/{name}/grants/{reader}"}
    for path, operations in paths.items():
        assert all(f"{method.upper()} {path}" in answer.text for method in operations)


def test_the_page_runs_its_own_script_and_no_other(served) -> None:
    answer = httpx.get(f"{served.url}/")
    (script,) = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    found = policy(answer)
    assert found["script-src"] == f"'sha256-{digest}'"
    assert (found["default-src"], found["connect-src"], found["frame-ancestors"]) == (
        "'none'",
        "'self'",
        "'none'",
    )
    assert not re.search(r"\son\w+=", answer.text), "handlers in tags would not run"


def test_every_answer_is_strict(served) -> None:
    for path in ("/", "/docs", "/health", "/ready", "/metrics", "/openapi.json", "/queries", "/nowhere"):
        answer = httpx.get(served.url + path)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "'none'" in policy(answer)["default-src"]
        assert "access-control-allow-origin" not in answer.headers
