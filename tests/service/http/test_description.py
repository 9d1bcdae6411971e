"""The REST description: every route says how it may fail, and the service does what it says."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import httpx
import numpy as np
import pytest
from tests.sql.world import rows_of

from headgate.service.edge_limits import EdgeLimits
from headgate.service.http.background import listening
from headgate.service.http.edge import PUBLIC

CONFIG = """
# What a text of SQL, and a row of a source, may be is not a matter of the schema; nor that the last server stays.
[[operations]]
include-path-regex = "^/(queries|queries/bulk|explain|sources/\\\\{name\\\\}/events|servers/\\\\{number\\\\})$"
[operations.checks.positive_data_acceptance]
enabled = false
"""


def test_every_route_documents_its_errors(served) -> None:
    found = httpx.get(f"{served.url}/openapi.json").json()
    error = found["components"]["schemas"]["ErrorBody"]
    assert error["required"] == ["error", "message"]
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            documented = operation["responses"]
            wanted = {"400", "429"} if path in PUBLIC else {"400", "401", "403", "404", "422", "429", "503"}
            assert documented.keys() >= wanted, (method, path)
            assert bool(operation.get("security")) == (path not in PUBLIC), (method, path)
            for code in wanted - {"503"}:
                schema = documented[code]["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorBody"}, (method, path, code)


def test_what_has_no_route_is_refused_in_the_same_form(served) -> None:
    with httpx.Client(base_url=served.url, headers={"Authorization": f"Bearer {served.token}"}) as http:
        for method, path, status in (
            ("GET", "/nowhere", 404),
            ("GET", "/queries/one", 404),
            ("GET", f"/queries/{'9' * 5000}", 404),
            ("GET", "/queries/-1", 404),
            ("GET", "/queries/bulk", 405),
            ("DELETE", "/queries", 405),
            ("DELETE", f"/servers/{'1' * 18}", 403),
        ):
            answer = http.request(method, path)
            assert (path, answer.status_code, answer.json().keys()) == (path, status, {"error", "message"})
        assert http.get("/queries/bulk").headers["allow"] == "POST"


@pytest.mark.full
@pytest.mark.skipif(find_spec("schemathesis") is None, reason="needs schemathesis: pip install schemathesis")
@pytest.mark.parametrize("role", ["admin", "writer", "reader"])
def test_schemathesis_finds_nothing(local, tmp_path, role) -> None:
    """All checks and phases over all routes but the streams, which do not end."""
    local.add("SELECT x FROM alpha WHERE x > 1", "SELECT city, x FROM beta")
    local.feed(rows_of(np.random.default_rng(1), 200))
    local.service.running = True
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    limits = EdgeLimits(requests_s=1e6, requests_burst=1 << 30, strangers_s=1e6, strangers_burst=1 << 30)
    with listening(local.service, limits=limits) as url:
        done = subprocess.run(
            [Path(sys.executable).with_name("schemathesis"), "--config-file", config, "run", f"{url}/openapi.json",
             "-H", f"Authorization: Bearer {local.service.add_tenant('tester', role=role)}", "--max-examples", "20",
             "--exclude-path-regex", "/stream$", "--suppress-health-check", "all", "--seed", "1",
             "--continue-on-failure", "--warnings", "off", "--generation-database", "none", "--no-color"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
