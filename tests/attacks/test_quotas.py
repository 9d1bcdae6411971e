"""What a tenant may have: templates, sources. An error names the limit, and what is removed is given back."""

import json
import sqlite3

import httpx
import numpy as np
import pytest
from tests.service.local import Local
from tests.sql.world import KIND, rows_of

import headgate as hg
from headgate.errors import QueryRefused, QuotaExceeded
from headgate.service import queries
from headgate.service.tenants import OPERATOR
from headgate.sql.limits import Limits


@pytest.fixture
def tight(tmp_path):
    """A service that allows three templates and five sources, of which its tenant has three."""
    local = Local(tmp_path / "service", limits=Limits(templates=3, sources=5))
    yield local
    local.service.close()


def shape(number: int) -> str:
    return f"SELECT x AS o{number} FROM alpha WHERE x > 1"


def test_templates_are_bounded_and_constants_are_free(tight) -> None:
    assert len(tight.add(*(shape(i) for i in range(6)))) == 3
    (refused,) = tight.service.register(tight.ann, [(shape(9), "")])
    assert isinstance(refused, QueryRefused)
    assert refused.reason == "too-many-templates"
    assert "3 templates" in str(refused)
    assert "the limit is templates" in str(refused)
    assert len(tight.add(shape(0).replace("1", "2"), shape(1).replace("alpha", "beta"))) == 2


def test_a_neighbours_templates_do_not_count(tight) -> None:
    tight.add(*(shape(i) for i in range(3)))
    bob = tight.service.authenticate(tight.service.add_tenant("bob"))
    tight.service.grant(tight.ann, "alpha", "bob")
    answers = tight.service.register(bob, [(shape(i), "") for i in range(1, 5)])
    assert [isinstance(answer, QueryRefused) for answer in answers] == [False, False, False, True]


def test_a_template_is_given_back_with_its_last_query(tight) -> None:
    service = tight.service
    first, second, third = tight.add(*(shape(i) for i in range(3)))
    (twin,) = tight.add(shape(0))
    service.remove(tight.ann, first)
    assert tight.add(shape(3)) == []
    service.pause(tight.ann, twin)
    (fourth,) = tight.add(shape(3))
    with pytest.raises(QueryRefused, match="the limit is templates"):
        service.resume(tight.ann, twin)
    service.remove(tight.ann, second)
    service.resume(tight.ann, twin)
    tight.restart()
    assert tight.add(shape(4)) == []
    tight.service.remove(tight.ann, third)
    tight.service.remove(tight.ann, fourth)
    assert len(tight.add(shape(4), shape(5), shape(6))) == 2


def test_templates_that_nobody_needs_are_freed_and_their_numbers_stay_theirs(tight) -> None:
    rows = rows_of(np.random.default_rng(1), 100)
    numbers = set[int]()
    for i in range(30):
        (query,) = tight.add(shape(i))
        tight.feed(rows)
        assert tight.answers(query)
        template = tight.service.computations.by_id[
            tight.service.get_query(tight.ann, query).computation
        ].template
        assert template not in numbers
        numbers.add(template)
        tight.service.remove(tight.ann, query)
        if i % 7 == 0:
            tight.restart()
    assert len(tight.service.computations.templates) <= 2
    with sqlite3.connect(tight.folder / "registry.db") as registry:
        assert registry.execute("SELECT count(*) FROM templates").fetchone()[0] <= 2


def test_sources_are_bounded(tight) -> None:
    columns = dict(KIND.columns)

    def declared(count):
        return [{"name": f"s{i}", "columns": columns} for i in range(count)]

    with pytest.raises(QuotaExceeded, match=r"3 sources and declares 3 more.*the limit is sources"):
        tight.service.add_sources(tight.ann, declared(3))
    assert len(tight.service.sources) == 3
    tight.service.add_sources(tight.ann, declared(2))
    with pytest.raises(QuotaExceeded):
        tight.service.add_sources(tight.ann, [{"name": "more", "columns": columns}])
    bob = tight.service.authenticate(tight.service.add_tenant("bob"))
    tight.service.add_sources(bob, [{"name": "bobs", "columns": columns}])
    tight.service.add_sources(OPERATOR, [{"name": f"o{i}", "columns": columns} for i in range(9)])


def test_a_hundred_thousand_sources_in_one_request_are_refused(served) -> None:
    body = json.dumps({"sources": [{"name": f"s{i}", "columns": {"x": "double"}} for i in range(100_000)]})
    headers = {"Authorization": f"Bearer {served.token}"}
    answer = httpx.post(f"{served.url}/sources/bulk", content=body, headers=headers, timeout=60)
    assert answer.status_code == 429
    assert "at most 5000" in answer.json()["message"]
    with hg.service.Client(served.url, served.token) as client:
        assert len(client.sources()) == 3


def test_the_registry_forgets_where_removed_queries_began(local, monkeypatch) -> None:
    monkeypatch.setattr(queries, "FORGET_AFTER", 5)
    window = "SELECT count(*) FROM alpha GROUP BY TUMBLE(time, INTERVAL '1 second')"
    rows = rows_of(np.random.default_rng(1), 400)
    (kept,) = local.add(window)
    (twin,) = local.add(window)
    for i in range(23):
        (query,) = local.add(f"SELECT x FROM alpha WHERE x > {i}")
        local.feed(rows.slice(10 * i, 10))
        local.service.remove(local.ann, query)
    with sqlite3.connect(local.folder / "registry.db") as registry:
        assert registry.execute("SELECT count(*) FROM starts").fetchone()[0] <= 6
        assert registry.execute("SELECT count(*) FROM starts WHERE batch = 0").fetchone()[0] == 1
    before = local.answers(kept)
    assert before
    local.restart()
    assert local.answers(kept) == local.answers(twin) == before
