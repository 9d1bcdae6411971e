"""Values that JSON can carry and the service cannot."""

import httpx
import pytest

from headgate.errors import ConfigError
from headgate.service.sources import rows_in_slots

HUGE = "9" * 400
HALF = '"\\ud800"'


@pytest.mark.parametrize(("path", "body"), [
    ("/sources/alpha/events", f'{{"events": [{{"time": 1, "x": {HUGE}}}]}}'),
    ("/sources/alpha/events", f'{{"events": [{{"time": {HUGE}}}]}}'),
    ("/sources/alpha/events", f'{{"events": [{{"time": 1, "n": {HUGE}}}]}}'),
    ("/sources/alpha/events", f'{{"events": [{{"time": 1, "city": {HALF}}}]}}'),
    ("/sources/alpha/events", f'{{"events": [{{"time": {HALF}}}]}}'),
    ("/sources/alpha/events", f'{{"events": [{{"time": 1, {HALF}: 1}}]}}'),
    ("/queries", f'{{"sql": {HALF}}}'),
    ("/queries", f'{{"sql": "SELECT x FROM alpha", "name": {HALF}}}'),
    ("/queries/bulk", f'{{"queries": [{{"sql": {HALF}}}]}}'),
    ("/explain", f'{{"sql": {HALF}}}'),
    ("/sources", f'{{"name": "delta", "columns": {{"x": "double"}}, "delay_s": {HUGE}}}'),
    ("/sources", f'{{"name": "delta", "columns": {{"x": "double"}}, "rate": {HUGE}}}'),
    ("/sources", f'{{"name": {HALF}, "columns": {{"x": "double"}}}}'),
    ("/sources", f'{{"name": "delta", "columns": {{{HALF}: "double"}}}}'),
    ("/sources", f'{{"name": "delta", "columns": {{"x": {HALF}}}}}'),
    ("/sources/bulk", f'{{"sources": [{{"name": "delta", "columns": {{"x": "double"}}, "rate": {HUGE}}}]}}'),
])  # fmt: skip
def test_they_are_refused_as_the_senders_fault(served, path, body) -> None:
    headers = {"Authorization": f"Bearer {served.token}", "content-type": "application/json"}
    answer = httpx.post(served.url + path, content=body, headers=headers)
    assert 400 <= answer.status_code < 500
    assert answer.json()["message"]
    assert len(served.service.sources) == 3


def test_the_largest_double_is_one(local) -> None:
    source = local.service.sources.get("alpha")
    assert rows_in_slots(source, [{"time": 1, "x": int(1.7e308)}]).num_rows == 1
    with pytest.raises(ConfigError, match="not a double"):
        rows_in_slots(source, [{"time": 1, "x": 10**309}])
