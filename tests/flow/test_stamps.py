"""Stamps, scopes and frontiers."""

import pytest

from headgate.errors import ConfigError
from headgate.flow import Frontier, Progress, enter, leave


def test_scopes_and_frontiers() -> None:
    assert leave(enter((1, 2), 3)) == (1, 2)
    with pytest.raises(ConfigError, match="in no scope"):
        leave(())
    assert () not in Frontier()
    assert () in Frontier.of([()])
    assert Progress().frontier == Frontier()
