"""The page and the REST description beside the token: nothing comes from elsewhere, and nothing else may run."""

import re

import httpx


def policy(answer) -> dict[str, str]:
    parts = answer.headers["content-security-policy"].split(";")
    return {name: rest for name, _, rest in (part.strip().partition(" ") for part in parts)}


def test_the_description_is_whole_without_a_network(served) -> None:
    answer = httpx.get(f"{served.url}/docs")
    assert not re.search(r"""<script|(?:src|href)=["']?(?:https?:)?//|@import|url\(""", answer.text)
    assert policy(answer)["default-src"] == "'none'"
    assert "script-src" not in policy(answer)
    paths = httpx.get(f"{served.url}/openapi.json").json()["paths"]
    assert paths.keys() >= {"/queries/bulk", "/sources/{name}/events", "/sources/{name}/grants/{reader}"}
    for path, operations in paths.items():
        assert all(f"{method.upper()} {path}" in answer.text for method in operations)


def test_the_page_runs_its_own_scripts_and_no_other(served) -> None:
    answer = httpx.get(f"{served.url}/")
    found = policy(answer)
    assert {name: found[name] for name in ("default-src", "script-src", "style-src", "connect-src")} == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
    }
    assert found["frame-ancestors"] == "'none'"
    assert not re.search(r"\son\w+=|<style|<script>|\sstyle=", answer.text), "the policy would not let it run"
    loaded = re.findall(r'(?:src|href)="(page/[^"]+)"', answer.text)
    assert len(loaded) == 2
    while loaded:
        file = httpx.get(f"{served.url}/{loaded.pop()}")
        assert file.status_code == 200
        assert file.headers["content-type"].split(";")[0] in ("text/javascript", "text/css")
        loaded += [f"page/{name}" for name in re.findall(r'from "\./([^"]+)"', file.text)]


def test_every_answer_is_strict(served) -> None:
    for path in ("/", "/docs", "/health", "/ready", "/metrics", "/openapi.json", "/queries", "/nowhere"):
        answer = httpx.get(served.url + path)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "'none'" in policy(answer)["default-src"]
        assert "access-control-allow-origin" not in answer.headers
