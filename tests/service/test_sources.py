"""Sources: which events they take."""

import pytest

from headgate.errors import (
    ConfigError,
)


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"x": 1}, "event 0 has time None"),
        ({"time": "yesterday"}, "event 0 has time 'yesterday'"),
        ({"time": 1e300}, "event 0 has time"),
        ({"time": 1, "y": 2}, "event 0 has 'y'"),
        ({"time": 1, "x": "warm"}, "event 0 has x='warm', which is not a double"),
        ({"time": 1, "n": 1.5}, "which is not a bigint"),
        ({"time": 1, "n": 1 << 70}, "which is not a bigint"),
        ([1], "event 0 is not an object"),
    ],
)
def test_malformed_events_are_refused_by_number_and_field(local, event, told) -> None:
    with pytest.raises(ConfigError, match=told.replace("(", "\\(")):
        local.service.push_events(local.ann, "alpha", [event])
