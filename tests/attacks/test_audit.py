"""The audit log: who did what is there, a token never is, and nobody reads another's."""

import sqlite3
import threading

import httpx
import numpy as np
import pytest
from tests.sql.world import rows_of

import headgate as hg
from headgate.errors import NotFound, QueryRefused
from headgate.service import audit
from headgate.service.audit import Audit, Entry

ENTRY = Entry("ann", "0123456789", "register", "query 1", 201, "10.0.0.1")


def test_every_change_is_there_and_nothing_secret(served) -> None:
    admin = served.service.add_tenant("root", admin=True)
    with hg.service.Client(served.url, served.token) as ann, hg.service.Client(served.url, admin) as root:
        number = ann.register("SELECT x FROM alpha WHERE city = 'secret'")
        ann.register_many(["SELECT x FROM alpha", "SELECT n FROM beta"])
        ann.grant("alpha", "bob")
        made = ann.create_token("ann", label="job")
        with pytest.raises(NotFound):
            ann.revoke_token("ann", made["token"])
        for _ in range(5):
            with pytest.raises(QueryRefused):
                ann.register("SELECT nope FROM alpha")
            ann.push("alpha", [{"time": 1, "city": "secret"}])
        served.feed(rows_of(np.random.default_rng(1), 20))
        ann.results(number)
        ann.explain("SELECT x FROM alpha")
        ann.remove(number)
        root.add_tenant("bob")
        mine = ann.audit()
        assert [(one["action"], one["object"], one["outcome"]) for one in mine] == [
            ("remove", f"/queries/{number}", 204),
            ("push", "/sources/alpha/events", 202),
            ("register", "/queries", 422),
            ("revoke_token", "/tenants/{name}/tokens/{token_id}", 404),
            ("create_token", f"token {made['id']} of tenant ann", 201),
            ("grant", "/sources/alpha/grants/bob", 204),
            ("register_many", "2 queries from 1 to 2", 200),
            ("register", f"query {number}", 201),
        ]
        assert {(one["tenant"], one["address"]) for one in mine} == {("ann", "127.0.0.1")}
        assert {one["token"] for one in mine} == {ann.me()["token"]}
        every = root.audit()
        assert (every[0]["action"], every[0]["object"]) == ("add_tenant", "tenant bob")
        assert len(every) == len(mine) + 1
        assert root.audit(of="ann") == mine
        assert root.audit(limit=2) + root.audit(before=every[1]["n"], limit=100) == every
        with pytest.raises(NotFound):
            ann.audit(of="root")
    served.service.close()
    written = b"".join(path.read_bytes() for path in served.folder.glob("audit.db*"))
    for secret in (served.token, admin, made["token"], made["token"][-20:], "secret"):
        assert secret.encode() not in written
    assert not any(path.stat().st_mode & 0o077 for path in served.folder.glob("audit.db*"))
    with sqlite3.connect(served.folder / "audit.db") as log:
        counts = dict(
            log.execute("SELECT action, sum(count) FROM audit WHERE outcome IN (202, 422) GROUP BY 1")
        )
    assert counts == {"push": 5, "register": 5}


def test_refused_tokens_are_counted_not_listed(served) -> None:
    token, text = served.service.accounts.create_token(served.ann, "ann")
    served.service.accounts.revoke_token(served.ann, "ann", token.id)
    with httpx.Client(base_url=served.url) as http:
        for number in range(40):
            for sent in (f"guess{number}", text):
                assert http.get("/queries", headers={"Authorization": f"Bearer {sent}"}).status_code == 401
    served.service.audit._write_counts(every=True)
    entries = served.service.audit.read()
    assert {(one["tenant"], one["token"], one["outcome"], one["action"]) for one in entries} == {
        ("", "", 401, "authenticate"),
        ("ann", token.id, 401, "authenticate"),
    }
    assert (len(entries), sum(one["count"] for one in entries)) == (4, 80)


def test_the_log_is_bounded_and_survives(tmp_path, monkeypatch) -> None:
    log = Audit(tmp_path / "audit.db", most=500)
    log.record(Entry("bob", "t", "act", "seen", 200, "a"))
    for number in range(200):
        log.record(Entry("ann", "t", "act", str(number), 200, "a"))
    kept = [one["object"] for one in log.read(limit=1000)]
    assert kept == [*(str(n) for n in reversed(range(150, 200))), "seen"], (
        "a tenant pushes out its own entries only"
    )
    log.close()
    again = Audit(tmp_path / "audit.db", most=500)
    again.record(ENTRY)
    assert [one["n"] for one in again.read(limit=2)] == [202, 201]
    monkeypatch.setattr(audit, "AGGREGATES", 10)
    for number in range(100):
        again.count(Entry("", "", "authenticate", "", 401, f"10.0.0.{number}"))
    assert len(again._counts) <= 11
    again.close()


def test_entries_that_cannot_be_written_are_counted(tmp_path) -> None:
    folder = tmp_path / "gone"
    log = Audit(folder / "audit.db")
    log.record(ENTRY)
    log.flush()
    folder.mkdir()
    log.record(ENTRY)
    assert [(one["action"], one["count"]) for one in log.read()] == [("entries lost", 1), ("register", 1)]
    log.close()


def test_whoever_records_does_not_wait_for_the_disk(tmp_path) -> None:
    log = Audit(tmp_path / "audit.db")
    log.record(ENTRY)
    log.flush()
    other = sqlite3.connect(tmp_path / "audit.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    done = threading.Event()

    def record() -> None:
        for _ in range(1000):
            log.record(ENTRY)
        done.set()

    threading.Thread(target=record).start()
    assert done.wait(20), "recording waits for a lock of the database"
    other.execute("ROLLBACK")
    other.close()
    assert len(log.read(limit=5000)) == 1001
    log.close()
