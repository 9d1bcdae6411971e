"""Expressions that would give other rows when a batch is done again, or need other rows, are refused."""

import pytest

from headgate.errors import ConfigError
from headgate.streams.sql_repeatable import check_repeatable
from headgate.streams.sql_step import Select, Where


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("rand() > 0.5", "rand.* is random"),
        ("x > Rand(42)", "rand.* is random"),
        ("uuid() AS id", "uuid.* is random"),
        ("uniform(1, 10, 0) AS u", "uniform.* is random"),
        ("at > current_timestamp()", "current_timestamp reads the clock"),
        ("at > current_timestamp", "current_timestamp reads the clock"),
        ("day = CURRENT_DATE", "current_date reads the clock"),
        ("at < TIMESTAMP 'now'", "'now' reads the clock"),
        ("cast(' Now ' AS timestamp) > at", "reads the clock"),
        ("day = to_date('today')", "'today' reads the clock"),
        ("date('tomorrow') AS d", "'tomorrow' reads the clock"),
        ("try_cast('yesterday' AS date) AS d", "'yesterday' reads the clock"),
        ("unix_timestamp() - x AS age", "unix_timestamp reads the clock"),
        ("monotonically_increasing_id() AS i", "depends on how rows are cut"),
        ("input_file_name() AS f", "depends on how rows are cut"),
        ("spark_partition_id() = 0", "depends on how rows are cut"),
        ("row_number() OVER (PARTITION BY a ORDER BY b) AS n", "window function"),
        ("sum(x) over w AS s", "sum.* is an aggregate"),
        ("custom(x) OVER (ORDER BY a) AS s", "OVER .* is a window function"),
        ("lag(x) AS before", "window function"),
        ("sum(x) AS s", r"sum.* is an aggregate, .* use key_by"),
        ("count(*) > 1", "count.* is an aggregate"),
        ("CASE WHEN max(x) > 1 THEN 1 END AS c", "max.* is an aggregate"),
    ],
)
def test_refused(text: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        Where(text)
    with pytest.raises(ConfigError, match=match):
        Select("a", text)


@pytest.mark.parametrize(
    "text",
    [
        "status = 'now'",
        "to_date('2024-01-01') = day AND said IN ('today', 'now')",
        "DATE 'epoch' < day",
        "rand > 0.5",
        "`rand` > 1 AND `current_timestamp` > 2",
        "x AS now",
        "x AS current_date",
        "t.first > 1",
        "name LIKE ANY ('a%', 'b%')",
        "unix_timestamp(at) > 5",
        "'rand()' = x",
        "aggregate(items, 0, (a, b) -> a + b) > 1",
        "greatest(a, b) > 1",
        "explode(items) AS item",
        "over > 1",
        "x -- rand()",
    ],
)
def test_accepted(text: str) -> None:
    check_repeatable(text)
