"""Limits that the operator of the service sets."""

import pytest
from tests.sql.world import KINDS

from headgate.errors import QueryRefused
from headgate.sql.limits import Limits
from headgate.sql.prepare import Preparer


def test_limits_are_the_operators() -> None:
    with pytest.raises(QueryRefused, match="60 s is the limit"):
        Preparer(Limits(window_s=60)).prepare(
            "SELECT count(*) FROM alpha GROUP BY TUMBLE(time, INTERVAL '2 minutes')", KINDS
        )
