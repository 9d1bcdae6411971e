"""Sources are private: what a tenant without a grant can find out about another's source, which is nothing."""

import sqlite3

import numpy as np
import pytest
from tests.service.local import Local
from tests.sql.world import rows_of
from typer.testing import CliRunner

import headgate as hg
from headgate.cli import app
from headgate.errors import AccessDenied, ConfigError, NotFound, QueryRefused
from headgate.service.queries import FAILED, Query
from headgate.service.tenants import Tenant

READS = "SELECT x FROM alpha WHERE x > 1"


@pytest.fixture
def mallory(local):
    """Another tenant of the service whose sources are ann's."""
    return local.service.authenticate(local.service.add_tenant("mallory"))


def refusal(local, tenant, text=READS):
    (answer,) = local.service.register(tenant, [(text, "")])
    assert isinstance(answer, QueryRefused)
    return answer


def registered(local, tenant, text=READS) -> Query:
    (answer,) = local.service.register(tenant, [(text, "")])
    assert isinstance(answer, Query)
    return answer


def test_a_source_of_another_does_not_exist(local, mallory) -> None:
    service = local.service
    missing = str(refusal(local, mallory, READS.replace("alpha", "nowhere")))
    assert str(refusal(local, mallory)) == missing.replace("nowhere", "alpha")
    local.add(READS)  # now its shape is remembered
    assert refusal(local, mallory).reason == "unknown-source"
    with pytest.raises(QueryRefused, match="there is no source 'alpha'"):
        service.explain(mallory, READS)
    for act in (service.push_events, service.grant, service.revoke):
        with pytest.raises(NotFound, match="there is no source 'alpha'"):
            act(mallory, "alpha", [])
    with pytest.raises(NotFound):
        service.list_grants(mallory, "alpha")
    assert service.list_sources(mallory) == ([], 0)
    assert {one["sources"] for one in service.servers(mallory)} == {0}


def test_a_grant_lets_read_and_nothing_else(local, mallory) -> None:
    service = local.service
    service.grant(local.ann, "alpha", "mallory")
    query = registered(local, mallory)
    local.feed(rows_of(np.random.default_rng(1), 100))
    assert service.read(mallory, query.id)[0]
    assert [source.name for source in service.list_sources(mallory)[0]] == ["alpha"]
    assert refusal(local, mallory, "SELECT x FROM beta").reason == "unknown-source"
    for act in (service.push_events, service.grant, service.revoke):
        with pytest.raises(AccessDenied, match="only its owner"):
            act(mallory, "alpha", "eve")
    assert service.list_grants(local.ann, "alpha") == ["mallory"]
    with pytest.raises(ConfigError, match="by its name"):
        service.grant(local.ann, "alpha", "no such name")


@pytest.mark.parametrize("to", ["mallory", "*"])
def test_a_grant_taken_back_stops_the_queries_that_need_it(local, mallory, to) -> None:
    service = local.service
    (own,) = local.add(READS)
    service.grant(local.ann, "alpha", to)
    query = registered(local, mallory)
    service.revoke(local.ann, "alpha", to)
    local.feed(rows_of(np.random.default_rng(1), 100))
    stopped = service.get_query(mallory, query.id)
    assert (stopped.state, "took the grant back" in stopped.why) == (FAILED, True)
    assert service.read(mallory, query.id)[0] == []
    with pytest.raises(QueryRefused, match="there is no source"):
        service.resume(mallory, query.id)
    assert sum(local.answers(own).values()) > 0
    local.restart()
    assert local.service.get_query(mallory, query.id).state == FAILED
    assert refusal(local, mallory).reason == "unknown-source"


def test_an_explanation_tells_nothing_about_others(local, mallory) -> None:
    service = local.service
    service.grant(local.ann, "alpha", "*")
    query = registered(local, mallory)
    before = service.explain_query(mallory, query.id)
    local.add(READS, READS, READS.replace("1", "2"), *["SELECT n FROM beta"] * 3)
    assert service.explain_query(mallory, query.id) == before
    assert before["queries_of_computation"] == 1
    admin = service.authenticate(service.add_tenant("root", admin=True))
    assert service.explain(admin, READS)["placement"]


def test_grants_over_rest_and_the_command_line(served, monkeypatch) -> None:
    token = served.service.add_tenant("mallory")
    monkeypatch.setenv("HEADGATE_URL", served.url)
    monkeypatch.setenv("HEADGATE_TOKEN", served.token)
    run = CliRunner()
    assert "may read source alpha" in run.invoke(app, ["source", "grant", "alpha", "mallory"]).output
    assert run.invoke(app, ["source", "grants", "alpha"]).output.split() == ["mallory"]
    assert "beta" in run.invoke(app, ["source", "list"]).output
    with hg.service.Client(served.url, token) as mallory:
        assert [source["name"] for source in mallory.sources()] == ["alpha"]
        number = mallory.register(READS)
        assert run.invoke(app, ["source", "revoke", "alpha", "mallory"]).exit_code == 0
        assert mallory.query(number)["state"] == FAILED
        with pytest.raises(NotFound):
            mallory.grants("alpha")
    with hg.service.Client(served.url, served.token) as ann:
        ann.grant("alpha", "*")
        assert ann.grants("alpha") == ["*"]


def test_a_registry_from_before_grants_keeps_its_queries(tmp_path) -> None:
    """Format 1: everyone read everything. Who has a query keeps its source, running or paused; others lose it."""
    local = Local(tmp_path)
    service = local.service
    tenants = {name: service.authenticate(service.add_tenant(name)) for name in ("mallory", "pat", "eve")}
    for name in ("alpha", "beta"):
        service.grant(local.ann, name, "*")
    query = registered(local, tenants["mallory"])
    paused = registered(local, tenants["pat"], "SELECT n FROM beta")
    service.pause(tenants["pat"], paused.id)
    local.add(READS)
    service.close()
    with sqlite3.connect(tmp_path / "registry.db") as old:
        old.execute("DROP TABLE grants")
        old.execute("ALTER TABLE tenants RENAME TO later")
        old.execute(
            "CREATE TABLE tenants (name TEXT PRIMARY KEY, token_hash TEXT NOT NULL UNIQUE, admin INTEGER NOT NULL)"
        )
        old.execute("INSERT INTO tenants SELECT tenant, hash, role = 'admin' FROM tokens")
        old.execute("DROP TABLE later")
        old.execute("DROP TABLE tokens")
        old.execute("UPDATE about SET value = '1' WHERE name = 'format'")
        old.execute("UPDATE sources SET tenant = 'operator' WHERE name = 'gamma'")
    tenants = {name: Tenant(name, admin=False) for name in tenants}  # by tokens that have other ids now
    for _ in range(2):
        local.start()
        service = local.service
        assert service.get_query(tenants["mallory"], query.id).state == "active"
        assert service.grants.of("alpha") == ["mallory"]
        assert service.grants.of("beta") == ["pat"]
        assert service.grants.of("gamma") == ["*"]
        assert [source.name for source in service.list_sources(tenants["eve"])[0]] == ["gamma"]
        service.close()
    local.start()
    assert local.service.resume(tenants["pat"], paused.id).state == "active"
    local.service.close()
