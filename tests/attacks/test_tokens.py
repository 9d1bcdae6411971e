"""Tokens and roles: what a token that is too weak, too old or somebody else's can do, which is nothing."""

import httpx
import numpy as np
import pytest
from tests.sql.world import rows_of
from typer.testing import CliRunner

import headgate as hg
from headgate.cli import app
from headgate.errors import (
    AccessDenied,
    AlreadyExists,
    BadToken,
    ConfigError,
    NotFound,
    QueryFailed,
    QuotaExceeded,
)
from headgate.service import tokens
from headgate.service.process import admin_token
from headgate.service.service import Service
from headgate.service.settings import Settings
from headgate.service.tenants import Tenant

READS = "SELECT x FROM alpha WHERE x > 1"


@pytest.fixture
def root(served):
    """A client with an admin's token."""
    with hg.service.Client(served.url, served.service.add_tenant("root", admin=True)) as client:
        yield client


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test turns."""
    now = [tokens.now_us()]
    for module in ("tokens", "tenants"):
        monkeypatch.setattr(f"headgate.service.{module}.now_us", lambda: now[0])
    return now


@pytest.fixture(scope="module")
def http():
    with httpx.Client() as client:
        yield client


def answers(http, served, token, method, path, **options):
    return http.request(method, served.url + path, headers={"Authorization": f"Bearer {token}"}, **options)


def paths_of(served, number):
    """Every route of the description, with its path filled in."""
    names = {"number": str(number), "name": "alpha", "reader": "bob", "token_id": "x"}
    for path, operations in httpx.get(f"{served.url}/openapi.json").json()["paths"].items():
        filled = path.replace("/tenants/{name}", "/tenants/ann").format(**names)
        yield from ((method.upper(), filled) for method in operations)


def test_a_reader_reads_everything_of_its_tenant_and_changes_nothing(served, http) -> None:
    (number,) = served.add(READS)
    served.feed(rows_of(np.random.default_rng(1), 50))
    with hg.service.Client(served.url, served.token) as writer:
        assert (
            writer.deliver(number, "webhook", {"url": "https://example.com/"})["deliveries"][0]["id"]
            == number
        )
    made = served.service.accounts.create_token(served.ann, "ann", role="reader")[1]
    before = served.service.status(), served.service.get_query(served.ann, number)
    tried = 0
    for method, path in paths_of(served, number):
        if method == "GET" and not path.endswith("/stream"):
            assert answers(http, served, made, method, path).status_code in (200, 503), path
        elif method != "GET" and path != "/explain":
            answer = answers(http, served, made, method, path, json={})
            assert (path, answer.status_code) == (path, 403)
            assert "the role reader, and this needs the role writer" in answer.json()["message"]
            tried += 1
    assert tried > 10
    assert (served.service.status(), served.service.get_query(served.ann, number)) == before
    with hg.service.Client(served.url, made) as reader:
        assert reader.explain(READS)["constants"] == [1]
        assert next(reader.tail(number))["query"] == number
        assert reader.me() == {"tenant": "ann", "role": "reader", "token": made.split("_")[1]}


def test_a_token_is_never_above_its_tenant(served, root) -> None:
    for role in ("admin", "writer"):
        bob = root.add_tenant(f"bob_{role}", role="reader")
        with pytest.raises(AccessDenied, match=f"is a reader, so its tokens cannot have the role '{role}'"):
            root.create_token(f"bob_{role}", role=role)
        with hg.service.Client(served.url, bob) as client, pytest.raises(AccessDenied, match="role"):
            client.create_token(f"bob_{role}")
    weak = root.create_token("root", role="writer")["token"]
    with hg.service.Client(served.url, weak) as writer:
        assert writer.me()["role"] == "writer"
        for act in (writer.add_server, lambda: writer.add_tenant("x"), lambda: writer.create_token("root")):
            with pytest.raises(AccessDenied, match="role"):
                act()
        assert [one["name"] for one in writer.tenants()] == ["root"]


def test_a_tenant_manages_its_own_tokens_and_others_do_not_exist(served, root) -> None:
    root.add_tenant("bob")
    with hg.service.Client(served.url, served.token) as ann:
        made = ann.create_token("ann", label="job", expires_s=60)
        assert (made["label"], made["role"], made["state"]) == ("job", "writer", "active")
        listed = ann.tokens("ann")
        assert [one["label"] for one in listed] == ["first", "job"]
        assert made["token"] not in str(listed)
        assert tokens.hash_of(made["token"]) not in str(listed)
        for act in (ann.tokens, ann.create_token, ann.disable_tenant, ann.remove_tenant):
            with pytest.raises((NotFound, AccessDenied)) as caught:
                act("bob")
            with pytest.raises(type(caught.value)) as nobody:
                act("nobody")
            assert str(caught.value).replace("bob", "nobody") == str(nobody.value)
        for label in ("x" * 101, "\x1b[2J"):
            with pytest.raises(ConfigError, match="label"):
                ann.create_token("ann", label=label)
        with pytest.raises(NotFound) as error:
            ann.revoke_token("ann", made["token"])  # the token where its id belongs
        assert made["token"] not in str(error.value)
        with pytest.raises(AlreadyExists):
            root.add_tenant("bob")


def test_a_rotated_token_ends_after_its_grace(served, clock) -> None:
    service = served.service
    old, text = service.accounts.create_token(served.ann, "ann", label="job", expires_s=1000)
    new, other = service.accounts.rotate_token(served.ann, "ann", old.id, grace_s=60)
    assert (new.label, new.role, new.expires_us) == (old.label, old.role, clock[0] + 1_000_000_000)
    assert service.authenticate(text) == service.authenticate(other) == served.ann
    clock[0] += 59_000_000
    service.authenticate(text)
    clock[0] += 1_000_000
    with pytest.raises(BadToken, match=f"token {old.id} is expired"):
        service.authenticate(text)
    with pytest.raises(ConfigError, match="is expired: create a new one"):
        service.accounts.rotate_token(served.ann, "ann", old.id)
    third = service.accounts.rotate_token(served.ann, "ann", new.id, grace_s=0)[1]
    with pytest.raises(BadToken):
        service.authenticate(other)
    served.restart()
    assert served.service.authenticate(third).name == "ann"
    assert {token.state(clock[0]) for token in served.service.tenants.tokens.of("ann")} == {
        "active",
        "expired",
    }


@pytest.mark.parametrize("end", ["revoke", "expire"])
def test_a_token_that_ended_is_401_and_its_streams_end(served, http, clock, end) -> None:
    (number,) = served.add(READS)
    token, text = served.service.accounts.create_token(served.ann, "ann", expires_s=1000)
    with hg.service.Client(served.url, text) as client:
        served.feed(rows_of(np.random.default_rng(1), 50))
        tail = client.tail(number)
        next(tail)
        if end == "revoke":
            served.service.accounts.revoke_token(served.ann, "ann", token.id)
        else:
            clock[0] += 1_000_000_000
        served.feed(rows_of(np.random.default_rng(2), 50))
        with pytest.raises(QueryFailed, match=f"token {token.id} is {end.rstrip('e')}ed"):
            [row for row in tail if row["batch"] > 0 and pytest.fail("a result after the end")]
        with pytest.raises(BadToken, match=f"is {end.rstrip('e')}ed"):
            client.queries()
    answer = answers(http, served, text, "GET", "/queries")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    served.restart()
    with pytest.raises(BadToken):
        served.service.authenticate(text)


def test_a_disabled_tenant_is_refused_and_its_queries_wait(served, root) -> None:
    (number,) = served.add(READS)
    root.disable_tenant("ann")
    with hg.service.Client(served.url, served.token) as ann:
        with pytest.raises(AccessDenied, match="tenant 'ann' is disabled") as caught:
            ann.queries()
        assert not isinstance(caught.value, BadToken)
        served.feed(rows_of(np.random.default_rng(1), 50))
        for act in (served.add, lambda text: served.service.add_sources(served.ann, [])):
            with pytest.raises(AccessDenied):  # a request that was let in just before
                act(READS)
        served.restart()
        with pytest.raises(AccessDenied):
            served.service.authenticate(served.token)
    served.service.accounts.enable(Tenant("root", admin=True), "ann")
    ann = served.service.authenticate(served.token)
    assert served.service.get_query(ann, number).state == "paused"
    assert served.service.resume(ann, number).state == "active"


def test_a_removed_tenant_leaves_nothing_that_runs(served, root) -> None:
    served.add(READS, "SELECT x FROM beta", READS)
    served.service.grant(served.ann, "alpha", "*")
    with hg.service.Client(served.url, root.add_tenant("bob")) as bob:
        number = bob.register(READS)
        root.remove_tenant("ann")
        stopped = bob.query(number)
        assert (stopped["state"], "its owner was removed" in stopped["why"]) == ("failed", True)
        assert bob.sources() == []
        with pytest.raises(BadToken):
            served.service.authenticate(served.token)
        with pytest.raises(AlreadyExists, match="or did"):
            root.add_tenant("ann")
        with pytest.raises(NotFound):
            root.remove_tenant("ann")
        with pytest.raises(ConfigError, match="itself"):
            root.remove_tenant("root")
        assert [one["name"] for one in root.tenants()] == ["bob", "root"]
    served.restart()
    assert (served.service.queries.count(), len(served.service.computations.by_id)) == (1, 0)
    with pytest.raises(BadToken):
        served.service.authenticate(served.token)


def test_tokens_of_a_tenant_are_bounded(local, monkeypatch) -> None:
    monkeypatch.setattr(tokens, "MOST_LIVE", 3)
    monkeypatch.setattr(tokens, "MOST_DEAD", 2)
    accounts = local.service.accounts
    made = [accounts.create_token(local.ann, "ann")[0] for _ in range(2)]
    with pytest.raises(QuotaExceeded, match="already has 3 tokens"):
        accounts.create_token(local.ann, "ann")
    for _ in range(6):
        accounts.revoke_token(local.ann, "ann", made.pop().id)
        made.append(accounts.create_token(local.ann, "ann")[0])
    assert len(local.service.tenants.tokens.of("ann")) <= 3 + 2 + 1
    local.restart()
    assert len(local.service.tenants.tokens.of("ann")) <= 3 + 2 + 1


def test_an_admins_token_that_was_revoked_is_not_learned_again(local) -> None:
    assert admin_token(local.service, local.folder)
    text = (local.folder / "token").read_text().strip()
    other = local.service.authenticate(local.service.add_tenant("root", admin=True))
    local.service.accounts.revoke_token(other, "admin_1", local.service.authenticate(text).token)
    local.restart()
    assert not admin_token(local.service, local.folder)
    with pytest.raises(BadToken):
        local.service.authenticate(text)
    for token in local.service.tenants.tokens.of("root"):
        local.service.accounts.revoke_token(other, "root", token.id)
    assert admin_token(local.service, local.folder), "nobody is an admin: whoever owns the folder becomes one"
    again = (local.folder / "token").read_text().strip()
    assert again != text
    assert local.service.authenticate(again).admin


def test_when_a_token_was_used_is_known_after_a_restart(local) -> None:
    local.service.authenticate(local.token)
    (before,) = local.service.tenants.tokens.of("ann")
    local.restart()
    (after,) = local.service.tenants.tokens.of("ann")
    assert before.used_us == after.used_us is not None


def test_tenants_and_tokens_by_command(served, root, monkeypatch) -> None:
    monkeypatch.setenv("HEADGATE_URL", served.url)
    monkeypatch.setenv("HEADGATE_TOKEN", root._http.headers["authorization"].split()[1])
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == 0, done.output
        return done.output

    bob = run("tenant", "add", "bob", "--role", "reader").split()[-1]
    assert served.service.authenticate(bob).reader
    assert "bob" in run("tenant", "list")
    made = run("token", "create", "--tenant", "bob", "--label", "job", "--expires", "12h").split()[-1]
    number = served.service.authenticate(made).token
    assert number in run("token", "list", "--tenant", "bob")
    assert made not in run("token", "list", "--tenant", "bob")
    new = run("token", "rotate", number, "--tenant", "bob", "--grace", "0").split("\n")[1]
    with pytest.raises(BadToken):
        served.service.authenticate(made)
    run("token", "revoke", served.service.authenticate(new).token, "--tenant", "bob")
    with pytest.raises(BadToken):
        served.service.authenticate(new)
    run("tenant", "disable", "bob")
    run("tenant", "enable", "bob")
    run("tenant", "rm", "bob")
    assert "remove_tenant" in run("audit", "--last", "5")
    assert CliRunner().invoke(app, ["token", "create", "--expires", "soon"]).exit_code == 1


def test_another_value_of_the_variable_is_no_second_admin(local, monkeypatch) -> None:
    names = list[str]()
    for text in ("a" * 30, "b" * 30, "b" * 30, "c" * 30):
        monkeypatch.setenv("HEADGATE_ADMIN_TOKEN", text)
        assert not admin_token(local.service, local.folder)
        tenant = local.service.authenticate(text)
        assert tenant.admin
        names.append(tenant.name)
        local.restart()
    assert len(set(names)) == 1
    assert sum(one.role == "admin" for one in local.service.tenants.listed()) == 1
    for text in ("a" * 30, "b" * 30):
        with pytest.raises(BadToken):
            local.service.authenticate(text)


def test_the_variable_gives_the_first_admin_another_token(tmp_path, monkeypatch) -> None:
    service = Service(Settings(tmp_path, servers=1))
    assert admin_token(service, tmp_path)
    monkeypatch.setenv("HEADGATE_ADMIN_TOKEN", "d" * 30)
    assert not admin_token(service, tmp_path)
    first = service.authenticate((tmp_path / "token").read_text().strip())
    assert (first.name, service.authenticate("d" * 30).name) == ("admin", "admin")
    service.close()
