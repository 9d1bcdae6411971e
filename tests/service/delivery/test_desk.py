"""Deliveries over HTTP, from the client and from the command line: what is allowed, and that all is private."""

import json

import pytest
from tests.service.delivery.receiver import LOCAL, allowing
from tests.service.local import Local
from typer.testing import CliRunner

from headgate.cli import app
from headgate.errors import ConfigError, NotFound, QuotaExceeded
from headgate.service import Client
from headgate.service.http.background import listening
from headgate.service.targets_config import Allowed, Target
from headgate.sql.limits import Limits

HOOK = {"url": "http://127.0.0.1:9/hook"}


class Served(Local):
    """A service behind a port, with another tenant and a query."""

    bob, number, url = "", -1, ""


@pytest.fixture
def served(tmp_path):
    lake = Target(
        "lake", "delta", {"path": "/nowhere", "storage_options": {"key": "secret"}}, frozenset({"ann"})
    )
    others = Target("theirs", "parquet", {"path": "/nowhere"}, frozenset({"bob"}))
    local = Served(
        tmp_path, servers=1, allowed=allowing(LOCAL, lake=lake, theirs=others), limits=Limits(deliveries=3)
    )
    local.bob = local.service.add_tenant("bob")
    (local.number,) = local.add("SELECT n, city FROM alpha")
    with listening(local.service) as local.url:
        yield local
    local.service.close()


def test_a_client_orders_looks_pauses_resumes_and_removes(served) -> None:
    with Client(served.url, served.token) as client:
        assert client.targets() == [{"name": "lake", "kind": "delta"}, {"name": "webhook", "kind": "webhook"}]
        answer = client.deliver(served.number, "webhook", HOOK)
        (one,) = answer["deliveries"]
        assert answer["secret"].startswith("whsec_")
        assert client.deliveries() == [client.delivery(one["id"])]
        assert answer["secret"] not in json.dumps(client.deliveries())
        client.pause_delivery(one["id"])
        assert client.delivery(one["id"])["state"] == "paused"
        client.resume_delivery(one["id"], skip=True)
        assert client.delivery(one["id"])["state"] == "active"
        served.restart()
        assert [d.id for d in served.service.deliveries.of("ann")] == [one["id"]]


def test_a_secret_is_rotated_by_its_owner_only(served) -> None:
    with Client(served.url, served.token) as client:
        answer = client.deliver(served.number, "webhook", HOOK)
        (one,) = answer["deliveries"]
        made = client.rotate_secret(one["id"], grace_s=60)
        assert made["secret"] not in ("", answer["secret"])
        assert made["id"] == one["id"]
        assert made["secret"] not in json.dumps(client.deliveries())
        (lake,) = client.deliver(served.number, "lake", {"table": "cities"})["deliveries"]
        with pytest.raises(ConfigError, match="only webhooks"):
            client.rotate_secret(lake["id"])
    with Client(served.url, served.bob) as client, pytest.raises(NotFound):
        client.rotate_secret(one["id"])
    asked = [
        "delivery",
        "rotate",
        str(one["id"]),
        "--grace",
        "0",
        "--url",
        served.url,
        "--token",
        served.token,
    ]
    told = CliRunner().invoke(app, asked)
    assert told.exit_code == 0, told.output
    assert "whsec_" in told.output
    assert len(served.service.deliveries.by_id[one["id"]].secrets_at(0)) == 1


def test_removed_is_removed(served) -> None:
    with Client(served.url, served.token) as client:
        (one,) = client.deliver(served.number, "webhook", HOOK)["deliveries"]
        client.remove_delivery(one["id"])
        assert client.deliveries(served.number) == []
        with pytest.raises(NotFound, match="no delivery"):
            client.delivery(one["id"])


def test_everything_is_private(served) -> None:
    with Client(served.url, served.token) as ann, Client(served.url, served.bob) as bob:
        (one,) = ann.deliver(served.number, "webhook", HOOK)["deliveries"]
        assert bob.deliveries() == []
        assert {target["name"] for target in bob.targets()} == {"theirs", "webhook"}
        for call in (bob.delivery, bob.pause_delivery, bob.resume_delivery, bob.remove_delivery):
            with pytest.raises(NotFound, match="there is no delivery"):
                call(one["id"])
        with pytest.raises(NotFound, match="there is no query"):
            bob.deliver(served.number, "webhook", HOOK)
        with pytest.raises(NotFound, match=r"no target 'theirs'; you may deliver to: lake, webhook"):
            ann.deliver(served.number, "theirs", {"table": "t"})
        assert ann.delivery(one["id"])["state"] == "active"


@pytest.mark.parametrize(
    ("target", "options", "why"),
    [
        ("webhook", {}, "needs the option 'url'"),
        ("webhook", {"url": "https://example.com/", "table": "t"}, "does not know the option 'table'"),
        ("webhook", {"url": "ftp://example.com/"}, "begins with"),
        ("lake", {}, "needs the option 'table'"),
        ("lake", {"table": "../../etc"}, "needs the option 'table'"),
        ("lake", {"table": "a/b"}, "needs the option 'table'"),
    ],
)
def test_what_cannot_be_ordered_is_refused(served, target, options, why) -> None:
    with Client(served.url, served.token) as client:
        with pytest.raises(ConfigError, match=why):
            client.deliver(served.number, target, options)
        assert client.deliveries() == []


def test_columns_of_a_table_must_differ(served) -> None:
    (ours,) = served.add("SELECT n AS _batch FROM alpha")
    with Client(served.url, served.token) as client, pytest.raises(ConfigError, match="another name with AS"):
        client.deliver(ours, "lake", {"table": "t"})


def test_a_tenant_has_so_many_and_no_more(served) -> None:
    with Client(served.url, served.token) as client:
        client.deliver([served.number], "webhook", HOOK)
        client.deliver(served.number, "webhook", HOOK)
        more = served.add("SELECT n + 1 AS a FROM alpha", "SELECT n + 2 AS a FROM alpha")
        with pytest.raises(QuotaExceeded, match="at most 3"):
            client.deliver(more, "webhook", HOOK)
        assert len(client.deliveries()) == 2


def test_the_command_line_does_the_same(served, monkeypatch) -> None:
    monkeypatch.setenv("HEADGATE_URL", served.url)
    monkeypatch.setenv("HEADGATE_TOKEN", served.token)

    def run(*words):
        done = CliRunner().invoke(app, ["delivery", *words])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert "lake (delta)" in run("targets")
    added = json.loads(run("add", "webhook", str(served.number), "--option", f"url={HOOK['url']}", "--json"))
    number = str(added["deliveries"][0]["id"])
    assert "whsec_" in run("add", "webhook", str(served.number), "--option", f"url={HOOK['url']}")
    assert json.loads(run("list", "--json"))["deliveries"][0]["options"] == HOOK
    assert HOOK["url"] in run("list").replace("\n", "").replace(" ", "") or "webhook" in run("list")
    run("pause", number)
    assert "state: paused" in run("show", number)
    run("resume", number, "--skip")
    assert "state: active" in run("show", number)
    run("rm", number)
    assert len(json.loads(run("list", "--json"))["deliveries"]) == 1


LAKE = {"kind": "delta", "path": "/lake", "tenants": ["ann"]}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"targets": {"x": {}}}, "write kind"),
        ({"targets": {"x": {**LAKE, "pth": 1}}}, "'pth'"),
        ({"targets": {"x": {"kind": "delta", "tenants": "*"}}}, "lacks 'path'"),
        ({"targets": {"x": {"kind": "delta", "path": "/p"}}}, "tenants"),
        ({"targets": {"webhook": LAKE}}, "choose another"),
        ({"targets": {"x": {**LAKE, "options_from_env": {"key": "MISSING"}}}}, "not set"),
        ({"targets": {"x": {"kind": "parquet", "path": "/p", "tenants": "*", "options_from_env": {"a": "HOME"}}}}, "options_from_env"),
        ({"webhooks": {"https": True}}, "'https'"),
        ({"webhooks": {"networks": ["10.0.0.1/8"]}}, "10.1.0.0/16"),
        ({"webhooks": {"seconds": 0}}, "above 0"),
        ({"webhooks": {"seconds": True}}, "right type"),
        ({"webhooks": {"hosts": "example.com"}}, "right type"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_is_refused(body, why) -> None:
    with pytest.raises(ConfigError, match=why):
        Allowed.of(body, {"HOME": "/"})


def test_a_configuration_is_read_and_its_secrets_are_not_shown() -> None:
    body = {
        "targets": {"x": {**LAKE, "options_from_env": {"AWS_SECRET_ACCESS_KEY": "KEY"}}},
        "webhooks": {"hosts": ["*.example.com"], "networks": ["10.1.0.0/16"], "tenants": ["ann"]},
    }
    allowed = Allowed.of(body, {"KEY": "hidden"})
    assert allowed.targets["x"].settings["storage_options"] == {"AWS_SECRET_ACCESS_KEY": "hidden"}
    assert "hidden" not in repr(allowed)
    assert allowed.webhooks.allows("ann")
    assert not allowed.webhooks.allows("bob")
    assert allowed.targets["x"].allows("ann")
    assert not allowed.targets["x"].allows("bob")
