"""Balance limits: how the absolute one is chosen, and bad input."""

import pytest

from headgate.errors import ConfigError
from headgate.hosting import Balance
from headgate.hosting.balance import enough_queries, largest_absolute


def test_how_alpha_is_chosen() -> None:
    assert largest_absolute(100, 0.05, 0.01) == pytest.approx(4605, abs=1)
    assert enough_queries(100, 0.05, 0.01, union=True) > enough_queries(100, 0.05, 0.01)


def test_a_negative_limit_raises() -> None:
    with pytest.raises(ConfigError, match="not negative"):
        Balance(relative=-0.1)
