"""Who leads: one process at a time tries, and one that has slept does no harm."""

import sqlite3
from functools import partial
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.service.local import Local
from tests.service.test_migrations import DUMP

from headgate.errors import CheckpointError, HeadgateError, NewerFormat, Superseded
from headgate.service.http.client import Client
from headgate.service.leadership import Both, FolderLock, Lease, fenced
from headgate.service.places import Places
from headgate.service.registry import FORMAT, open_registry
from headgate.service.service import Service
from headgate.service.settings import Settings


class Row:
    """A registry of one row, in memory."""

    def __init__(self) -> None:
        self.value: str | None = None

    def read(self, sql, *values):
        return [(self.value,)] if self.value is not None else []

    def write(self, *changes):
        (_, [(_, first)]), (_, [(new, _, old)]) = changes
        if self.value is None:
            self.value = first
        elif self.value == old:
            self.value = new

    def close(self) -> None:
        pass


ACTS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["take", "keep", "sleep", "release"]), st.floats(0, 4)),
    max_size=60,
)


@settings(max_examples=200)
@given(ACTS)
def test_a_lease_has_one_holder_who_renewed_it_within_the_time(acts) -> None:
    """A lease is never taken from one who renewed it less than `lease_s` ago, whatever the clocks say."""
    row: Any = Row()
    now = [0.0]
    skews = [0.0, 1e6, -1e6]
    members = [Lease(row, 3.0, partial(lambda skew: now[0] + skew, skew)) for skew in skews]
    leads, renewed = [False] * 3, [0.0] * 3
    for who, act, seconds in acts:
        if act == "sleep":
            now[0] += seconds
        elif act == "take" and not leads[who]:
            if members[who].take():
                others = [n for n in range(3) if n != who and leads[n]]
                assert all(now[0] - renewed[n] >= 3.0 for n in others)
                leads[who], renewed[who] = True, now[0]
        elif act == "keep" and leads[who]:
            leads[who] = members[who].keep()
            renewed[who] = now[0] if leads[who] else renewed[who]
        elif act == "release" and leads[who]:
            leads[who] = False
            members[who].release()
    holders = [n for n in range(3) if leads[n] and members[n].keep()]
    assert len(holders) <= 1


def test_a_lease_that_was_released_is_taken_at_once(tmp_path) -> None:
    where = str(tmp_path / "registry.db")
    first, second = (Lease(open_registry(where), 1e9) for _ in range(2))
    assert first.take()
    assert first.keep()
    assert not second.take()
    first.release()
    assert second.take()
    assert second.holder() != "nobody"
    second.release()


def test_a_folder_has_one_leader_and_a_dead_one_leaves_it(tmp_path) -> None:
    first, second = Both(FolderLock(tmp_path), FolderLock(tmp_path / "a")), FolderLock(tmp_path)
    assert first.take()
    assert not second.take()
    first.release()
    assert second.take()
    second.release()


def test_places_are_apart_only_if_nothing_is_in_the_folder(tmp_path) -> None:
    assert not Places.of(tmp_path).apart
    assert not Places.of(tmp_path, registry="postgresql://db/x").apart
    assert not Places.of(tmp_path, state="s3://bucket/x").apart
    apart = Places.of(tmp_path, registry="postgresql://db/x", state="s3://bucket/x")
    assert apart.apart
    assert apart.push == "s3://bucket/x/push"
    assert Places.of(tmp_path, push="elsewhere").push == "elsewhere"


def test_a_push_after_a_takeover_is_not_acknowledged(local) -> None:
    event = [{"time": 1, "x": 1.0}]
    assert local.service.push_events(local.ann, "alpha", event) == 1
    later = Local.__new__(Local)
    later.folder, later.settings = local.folder, local.settings
    later.start()
    with pytest.raises(Superseded):
        local.service.push_events(local.ann, "alpha", event)
    later.service.close()


def test_a_write_during_a_takeover_is_neither_promised_nor_denied(local) -> None:
    later = Local.__new__(Local)
    later.folder, later.settings = local.folder, local.settings
    with pytest.raises(CheckpointError, match="not known") as error, fenced(local.service.batch_log.commits):
        later.start()
    assert not isinstance(error.value, Superseded)  # nobody may send it again unasked
    with fenced(later.service.batch_log.commits):
        later.service.batch_log.commits.commit({})  # its own commits do not fence it
    later.service.close()


def test_what_an_old_leader_was_told_before_the_takeover_is_known_to_the_new_one(local) -> None:
    local.service.add_tenant("bob")
    later = Local.__new__(Local)
    later.folder, later.settings = local.folder, local.settings
    later.start()
    with pytest.raises(HeadgateError):
        local.service.add_tenant("carl")
    assert later.service.tenants.by_name("bob").name == "bob"
    assert len(later.service.tenants) == 2
    later.service.close()


# -- formats


def aged(folder, number) -> None:
    with sqlite3.connect(folder / "registry.db") as registry:
        registry.execute("UPDATE about SET value = ? WHERE name = 'format'", (str(number),))


def test_an_older_registry_is_copied_and_upgraded_once(tmp_path) -> None:
    folder = tmp_path / "service"
    folder.mkdir()
    with sqlite3.connect(folder / "registry.db") as registry:
        registry.executescript(DUMP.read_text())
    service = Service(Settings(folder))
    assert f"from format 2 to {FORMAT}" in service.upgraded
    copy = folder / "registry.db.format-2"
    assert str(copy) in service.upgraded
    assert not copy.stat().st_mode & 0o077
    with sqlite3.connect(copy) as before:
        assert before.execute("SELECT value FROM about WHERE name = 'format'").fetchall() == [("2",)]
        assert before.execute("SELECT count(*) FROM queries").fetchone()[0] == service.queries.count() > 0
    service.close()
    again = Service(Settings(folder))
    assert again.upgraded == ""
    again.close()


def test_a_newer_registry_is_left_alone(local) -> None:
    local.service.close()
    aged(local.folder, FORMAT + 1)
    before = (local.folder / "registry.db").read_bytes()
    with pytest.raises(NewerFormat, match=f"format {FORMAT + 1}"):
        local.start()
    assert (local.folder / "registry.db").read_bytes() == before
    aged(local.folder, FORMAT)
    local.start()


# -- clients


def answering(behaviour, asked):
    """A transport whose hosts answer or refuse."""

    def answer(request):
        asked.append(request.url.host)
        how = behaviour[request.url.host]
        if isinstance(how, Exception):
            raise how
        status, body = how
        return httpx.Response(status, json=body)

    return httpx.MockTransport(answer)


STANDBY = (503, {"error": "standby", "message": "ask another"})
DEAD = httpx.ConnectError("refused")
OK = (200, {"accepted": 1})


@pytest.mark.parametrize("first", [STANDBY, DEAD, (503, {"error": "Superseded", "message": ""})])
def test_a_client_goes_to_the_address_that_acts(first) -> None:
    asked: list[str] = []
    with Client("http://a, http://b/", transport=answering({"a": first, "b": OK}, asked)) as client:
        assert client.push("alpha", []) == 1
        assert client.push("alpha", []) == 1
    assert asked == ["a", "b", "b"]


@pytest.mark.parametrize(
    "first", [httpx.ReadError("cut"), (503, {"error": "CheckpointError", "message": "unsure"})]
)
def test_a_request_that_may_have_been_acted_on_is_not_sent_again(first) -> None:
    asked: list[str] = []
    with Client(["http://a", "http://b"], transport=answering({"a": first, "b": OK}, asked)) as client, \
        pytest.raises(HeadgateError):  # fmt: skip
        client.push("alpha", [])
    assert asked == ["a"]


def test_a_client_gives_up_after_its_patience() -> None:
    asked: list[str] = []
    transport = answering({"a": DEAD, "b": STANDBY}, asked)
    with Client(["http://a", "http://b"], transport=transport, patience_s=0) as client:
        with pytest.raises(HeadgateError, match="ask another"):
            client.push("alpha", [])
        assert asked == ["a", "b"]
        with pytest.raises(HeadgateError, match="http://a or http://b"):
            client.push("alpha", [])
