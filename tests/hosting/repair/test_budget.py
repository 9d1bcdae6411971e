"""The budget of repair: bad input."""

import pytest

from headgate.errors import ConfigError
from headgate.hosting import Repair


def test_a_negative_budget_raises() -> None:
    with pytest.raises(ConfigError, match="0 or more"):
        Repair(moves=-1)
