"""Bad events at random among good ones: what is refused is the sender's fault and leaves no trace, what is accepted
is answered once, and a neighbour's events are never touched.
"""

import json
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from tests.service.local import Local
from tests.service.pushed import Pushed

from headgate.service.batch.loop import Loop
from headgate.service.http.background import listening
from headgate.service.queries import Query

COLUMNS = {"n": "bigint", "x": "double", "city": "varchar", "wet": "boolean", "seen": "timestamp"}
TIMES = [
    0,
    1,
    1.5,
    1e9,
    "1970-01-01",
    "2026-01-01T08:00:00Z",
    "2026-01-01T08:00:00+05:30",
    "2026-01-01 08:00:00.123456",
]
BAD_TIMES: list[Any] = [
    None, True, "", "soon", "2026-13-01", "1969-12-31", "2300-01-01", -1, 1e12, 1e300, 10**400, [], {}, "\ud800", "0" * 5000,
]  # fmt: skip
GOOD: dict[str, list[Any]] = {
    "x": [0, -1, 1.5, 1e308, -1e-308, 10**300, None],
    "city": ["", "Oslo", "Ärger", "\0", "'; DROP TABLE x; --", "𝄞", "\u202e", "x" * 10_000, None],
    "wet": [True, False, None],
    "seen": [*TIMES, None],
}
BAD: dict[str, list[Any]] = {
    "n": ["1", 1.5, True, 2**63, -(2**63) - 1, 10**400, [1], {"n": 1}],
    "x": ["1", True, 10**400, -(10**309), [], {}],
    "city": [1, True, "\ud800", "half\udfff", "x" * 10_001, ["a"], {"a": "b"}],
    "wet": [0, 1, "true", [], {}],
    "seen": [value for value in BAD_TIMES if value is not None],
}
FOREIGN = ["N", "nope", "", "source", "time ", "n\0", "__proto__"]
RAW = [
    b"", b"{", b"[]", b"null", b"7", b'"events"', b'{"events": 7}', b'{"events": [7]}', b'{"events": [[]]}', b'{"events": [{}]}',
    b'{"events": [{"time": 1}', b'{"events": [{"time": 1},]}', b'{"events": [{"time": 1}]} x', b'{"events": [{"time": 1}]}}',
    b"\xff\xfe", b'{"events": [{"time": 1, "city": "\xc3"}]}', b'{"event": [{"time": 1}]}', b'{"events": [{"time": 1' + b"0" * 500 + b"}]}",
    b'{"events": [{"time": 1, "city": ' + b"[" * 3_000 + b"}]}", b'{"events": ' + b"[" * 100_000, b'{"events": [' + b'{"a":' * 20_000,
    b'{"events": [{"time": 1, "city": "\\ud800"}]}', b'{"events": [{"time": 1, "n": 1e400}]}', b'{"events": [{"time": 1}{"time": 1}]}',
]  # fmt: skip


def event(draw, number):
    """An event, and whether it is good."""
    made = {"time": TIMES[draw.integers(len(TIMES))], "n": number}
    for name, values in GOOD.items():
        if draw.random() < 0.5:
            made[name] = values[draw.integers(len(values))]
    if draw.random() < 0.55:
        return made, True
    match draw.integers(4):
        case 0:
            made["time"] = BAD_TIMES[draw.integers(len(BAD_TIMES))]
        case 1:
            del made["time"]
        case 2:
            made[FOREIGN[draw.integers(len(FOREIGN))]] = 1
        case _:
            name = list(BAD)[draw.integers(len(BAD))]
            made[name] = BAD[name][draw.integers(len(BAD[name]))]
    return made, False


def drain(local):
    """Compute what was pushed, batch by batch."""
    loop = Loop(local.service, local.processor, [Pushed(local.service)], pa.concat_tables)
    while loop.step():
        pass


@pytest.mark.parametrize(("count", "seed"), [(300, 1), pytest.param(10_000, 2, marks=pytest.mark.full)])
def test_no_event_stops_a_batch_or_touches_a_neighbour(tmp_path, count, seed) -> None:
    draw = np.random.default_rng(seed)
    local = Local(tmp_path / "service")
    service = local.service
    service.add_sources(local.ann, [{"name": "target", "columns": COLUMNS}])
    bob_token = service.add_tenant("bob")
    bob = service.authenticate(bob_token)
    service.add_sources(bob, [{"name": "quiet", "columns": {"n": "bigint"}}])
    (mine,) = local.add("SELECT n, x, city, wet, seen FROM target")
    (his,) = service.register(bob, [("SELECT n FROM quiet", "")])
    assert isinstance(his, Query)
    accepted, refused, sent = list[int](), 0, 0
    with listening(service) as url, httpx.Client(base_url=url, timeout=60) as http:
        headers = {"Authorization": f"Bearer {local.token}", "content-type": "application/json"}
        bobs = {"Authorization": f"Bearer {bob_token}"}
        for turn in range(count):
            if draw.random() < 0.1:
                answer = http.post("/sources/target/events", content=RAW[turn % len(RAW)], headers=headers)
                good, numbers = False, []
            else:
                made = [event(draw, 10 * turn + i) for i in range(draw.integers(1, 4))]
                good, numbers = all(ok for _, ok in made), [10 * turn + i for i in range(len(made))]
                body = json.dumps({"events": [one for one, _ in made]}).encode()
                answer = http.post("/sources/target/events", content=body, headers=headers)
            wanted = (202,) if good else (400, 413, 422)
            assert answer.status_code in wanted, (answer.status_code, answer.text[:300], numbers)
            refused += not good
            accepted += numbers if good else []
            if turn % 10 == 0:
                assert (
                    http.post(
                        "/sources/quiet/events", json={"events": [{"time": turn, "n": turn}]}, headers=bobs
                    ).status_code
                    == 202
                )
                sent += 1
    assert refused > count // 4
    drain(local)
    found = sorted(row[0] for row in local.answers(mine, 1000).elements())
    assert found == accepted
    rows, _ = service.read(bob, his.id, None, 10_000)
    assert [row["values"]["n"] for row in rows] == list(range(0, count, 10))
    assert len(rows) == sent
    assert service.quarantined()[1] == 0
    service.close()
