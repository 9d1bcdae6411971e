"""The service over HTTP, without Spark: requests in this process, batches by hand."""

import httpx
import numpy as np
import pytest
from tests.sql.world import named, rows_of

import headgate as hg
from headgate.errors import AccessDenied, ConfigError, HeadgateError, NotFound, QueryRefused


def test_a_query_from_register_to_results(served) -> None:
    with hg.service.Client(served.url, served.token) as client:
        number = client.register("SELECT city, x FROM alpha WHERE x > 1", name="warm")
        assert client.query(number)["name"] == "warm"
        rows = rows_of(np.random.default_rng(1), 200)
        served.feed(rows)
        expected = [r for r in named(rows, 0).to_pylist() if (r["x"] or 0) > 1]
        found, cursor = client.results(number)
        assert sorted((r["values"]["city"], r["values"]["x"]) for r in found) == sorted(
            (r["city"], r["x"]) for r in expected
        )
        assert found[0].keys() == {"query", "batch", "time", "values"}
        assert client.results(number, cursor) == ([], cursor)
        tail = client.tail(number)
        assert [next(tail) for _ in found] == found
        served.feed(rows)
        assert next(tail)["batch"] == 1
        tail.close()  # type: ignore[attr-defined]
        assert client.explain(number)["server"] in {one["server"] for one in client.servers()}
        assert client.explain("SELECT x FROM beta WHERE n > 3")["constants"] == [3]
        assert client.traffic()[-1]["sent_rows"] == client.traffic()[-1]["predicted_rows"]
        client.pause(number)
        client.resume(number)
        client.remove(number)
        assert client.queries() == []


def test_bulk_registration_answers_each_by_itself(served) -> None:
    with hg.service.Client(served.url, served.token) as client:
        answers = client.register_many(
            ["SELECT x FROM alpha", "SELECT nope FROM alpha", "SELECT n FROM beta"]
        )
        assert [type(a).__name__ for a in answers] == ["int", "QueryRefused", "int"]
        assert isinstance(answers[1], QueryRefused)
        assert answers[1].reason == "unknown-column"
        assert [q["id"] for q in client.queries()] == [answers[0], answers[2]]


def test_errors_come_back_as_they_are(served) -> None:
    with hg.service.Client(served.url, served.token) as client:
        with pytest.raises(QueryRefused, match=r"line 1, column 8") as caught:
            client.register("SELECT nope FROM alpha")
        assert (caught.value.reason, caught.value.line, caught.value.column) == ("unknown-column", 1, 8)
        with pytest.raises(NotFound):
            client.query(99)
        with pytest.raises(ConfigError, match="event 0"):
            client.push("alpha", [{"time": "never"}])
        with pytest.raises(AccessDenied, match="admin"):
            client.add_server()
        assert client.push("alpha", [{"time": 1, "x": 2.5}]) == 1
        client.add_source("delta", {"y": "double"})
        assert "delta" in {one["name"] for one in client.sources()}
    with hg.service.Client(served.url, "guess") as stranger, pytest.raises(AccessDenied, match="token"):
        stranger.queries()
    with (
        hg.service.Client("http://127.0.0.1:9", "x") as nowhere,
        pytest.raises(HeadgateError, match="headgate serve"),
    ):
        nowhere.queries()


def test_an_admin_changes_servers_and_tenants(served) -> None:
    token = served.service.add_tenant("root", admin=True)
    with hg.service.Client(served.url, token) as root:
        assert root.add_server() == 3
        assert root.lose_server(0) == 0
        bob = root.add_tenant("bob")
    with hg.service.Client(served.url, bob) as client:
        assert client.queries() == []


def test_the_tellers_need_no_token(served) -> None:
    local = served
    with httpx.Client(base_url=served.url) as http:
        assert http.get("/health").json()["ok"]
        assert http.get("/ready").status_code == 503
        local.service.running = True
        assert http.get("/ready").json()["ready"]
        local.feed(rows_of(np.random.default_rng(1), 20))
        text = http.get("/metrics").text
        assert "headgate_batch 0\n" in text
        assert "headgate_replication" in text
        assert 'headgate_batches_total{query="service",stage="0"} 1\n' in text
        assert http.get("/metrics").text == text, "a look changes nothing"
        paths = http.get("/openapi.json").json()["paths"]
        assert "/queries/{number}/results" in paths
        assert "<html" in http.get("/").text


@pytest.mark.parametrize("body", ["", "{", "[]", '{"sql": 5}', '{"queries": 1}', "\x00"])
def test_malformed_requests_are_refused(served, body) -> None:
    with httpx.Client(base_url=served.url) as http:
        answer = http.post("/queries", content=body, headers={"Authorization": f"Bearer {served.token}"})
        assert answer.status_code == 400
        assert answer.json()["error"] == "malformed"
