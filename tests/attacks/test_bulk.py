"""Large bodies: they are read piece by piece, away from the event loop, and mean what JSON says."""

import json
import threading

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import ConfigError
from headgate.service.http import bulk
from headgate.service.http.bulk import listed

values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
texts = st.text() | st.sampled_from(["},{", "}, {", "[{", "}]", '"},{"'])
plain = st.dictionaries(texts, values | texts, max_size=3)
objects = st.lists(st.dictionaries(texts, values | texts | st.lists(values | plain), max_size=4), max_size=6)


@given(objects, st.integers(40, 200), st.integers(4, 200), st.sampled_from([None, 1]), st.booleans())
def test_a_list_is_what_json_says_however_small_the_window(listing, window, piece, indent, compact) -> None:
    body = json.dumps({"events": listing}, indent=indent, separators=(",", ":") if compact else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "PIECE", piece)
        patch.setattr(bulk, "WINDOW", max([window, *(2 * len(json.dumps(one, indent=4)) for one in listing)]))
        assert listed(body.encode(), "events", 100) == listing


@pytest.mark.parametrize("body", [
    "", "[]", "{", '{"events"', '{"events": 1}', '{"events": [', '{"events": [{}', '{"events": [{},', '{"events": [{}]',
    '{"events": [{} {}]}', '{"events": [1]}', '{"events": [[]]}', '{"events": [{}]} x', '{"events": [{}], "more": 1}x',
    '{"events": [{"a": ]}', '{"events": [' + '{"a":' * 5000, '{"events": [{"a": ' + "9" * 5000 + "}]}", '{"else": []}',
    '{"events": [,]}', '{"events": []', '{"events": [{},]}', '{"events": [{},1,{},{}]}', '{"events": [{},{},{} {}]}',
    '{"events": [{},[{},{}]}', '{"events": [{},{"a": "},{}]}', '{"events": [{},{}],"a":[{},{}]}',
])  # fmt: skip
def test_what_is_no_list_of_objects_is_refused(body) -> None:
    with pytest.raises(ConfigError):
        listed(body.encode(), "events", 100)


def test_an_object_and_a_list_have_their_limits() -> None:
    with pytest.raises(ConfigError, match="at most 2"):
        listed(b'{"events": [{}, {}, {}]}', "events", 2)
    with pytest.raises(ConfigError, match=r"events\.1 cannot be read.*1048576 characters"):
        listed(b'{"events": [{}, {"a": [' + b"0," * (1 << 20) + b"0]}]}", "events", 2)
    with pytest.raises(ConfigError, match="UTF-8"):
        listed(b'{"events": [{"a": "\xff"}]}', "events", 2)


def test_a_piece_that_cannot_be_read_is_tried_once(monkeypatch) -> None:
    """Each object looks as if it went on: to try again at each would take the square of their number."""
    tried = list[int]()

    def loads(text):
        tried.append(len(text))
        return json.loads(text)

    monkeypatch.setattr(bulk, "json", type("Json", (), {"loads": staticmethod(loads)}))
    listing = [{"a": "},{"}] * 50_000
    body = json.dumps({"events": listing}, separators=(",", ":"))
    assert listed(body.encode(), "events", 50_000) == listing
    assert sum(tried) < 2 * len(body)


def test_the_event_loop_never_reads_a_large_body(served, monkeypatch) -> None:
    """Health is answered while a large body is being read: the reader here waits until it was."""
    asked, answered = threading.Event(), threading.Event()

    def slow(*arguments):
        asked.set()
        assert answered.wait(30)
        return listed(*arguments)

    monkeypatch.setattr("headgate.service.http.dependencies.listed", slow)
    headers = {"Authorization": f"Bearer {served.token}"}
    body = json.dumps({"events": [{"time": 1, "x": 2.5}] * 1000})
    with httpx.Client(base_url=served.url, headers=headers, timeout=60) as http:
        push = threading.Thread(target=http.post, args=("/sources/alpha/events",), kwargs={"content": body})
        push.start()
        assert asked.wait(30)
        assert httpx.get(f"{served.url}/health", timeout=30).json()["ok"]
        answered.set()
        push.join()
    assert served.service.push_log.rows == 1000


@pytest.mark.full
def test_health_is_answered_many_times_while_57_megabytes_are_read(served) -> None:
    body = json.dumps({"events": [{"time": 1, "x": 2.5, "city": "x" * 250}] * 200_000})
    headers = {"Authorization": f"Bearer {served.token}"}
    push = threading.Thread(
        target=httpx.post,
        args=(f"{served.url}/sources/alpha/events",),
        kwargs={"content": body, "headers": headers, "timeout": 300},
    )
    push.start()
    answers = 0
    while push.is_alive():
        answers += httpx.get(f"{served.url}/health", timeout=60).is_success
    assert served.service.push_log.rows == 200_000
    assert answers >= 5
