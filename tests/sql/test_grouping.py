"""What is grouped, and what a query may select beside it."""

import pytest
from tests.sql.world import KINDS, PREPARER

from headgate.errors import QueryRefused


def test_a_grouped_expression_must_be_repeated_exactly() -> None:
    text = "SELECT floor(x / {}), count(*) FROM alpha GROUP BY floor(x / {}), TUMBLE(time, INTERVAL '1 hour')"
    PREPARER.prepare(text.format(10, 10), KINDS)
    for wrong in ((10, 20), (20, 10)):
        with pytest.raises(QueryRefused, match="neither grouped"):
            PREPARER.prepare(text.format(*wrong), KINDS)
