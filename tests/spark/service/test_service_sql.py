# ruff: noqa: E501 (queries)
"""The service's SQL beside Spark's own reading of the same text over the same rows."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.sql.world import NAMES, Server, named, plain, rows_of

EXPRESSIONS = (
    "x + n", "x - 2 * n", "x / 4", "n / 2", "n % 3", "-n % 3", "x > 1.5e0", "x >= n AND n <> 2", "n = 1 OR x IS NULL", "NOT n > 2", "n BETWEEN 1 AND 3",
    "n IN (1, 3)", "city LIKE 'a%'", "city LIKE '%r'", "city || '-' || city", "CASE WHEN x > 1 THEN 'up' WHEN x < 0 THEN 'down' ELSE city END",
    "CAST(n AS DOUBLE) / 3", "CAST(n AS VARCHAR)", "abs(x)", "ceil(x)", "floor(x)", "coalesce(x, 0e0)", "exp(n)", "greatest(n, 2)", "least(n, 2)", "length(city)",
    "lower(city)", "upper(city)", "nullif(n, 2)", "pow(n, 2)", "round(x, 1)", "round(x)", "sign(x)", "sqrt(n)", "ln(n + 1)", "starts_with(city, 'a')",
    "substring(city, 2, 2)", "trim(city)", "city = 'ash'", "x IS NOT NULL", "n * 1000000",
)  # fmt: skip
AGGREGATES = (
    "count(*)", "count(x)", "sum(n)", "sum(x)", "avg(x)", "min(x)", "max(city)", "count(DISTINCT city)", "stddev_samp(n)", "stddev_pop(n)", "var_samp(n)",
    "var_pop(n)", "median(n)", "max(x) - min(x)", "sum(n) * 2",
)  # fmt: skip
SPARK_WORDS = {"VARCHAR": "STRING", "starts_with": "startswith"}


@pytest.fixture(scope="module")
def rows():
    return rows_of(np.random.default_rng(3), 300)


@pytest.fixture(scope="module")
def views(spark, rows):
    """The sources as Spark's tables, times without a zone as in the service."""
    for source, name in enumerate(NAMES):
        frame = spark.createDataFrame(named(rows, source).to_pandas().replace({np.nan: None}),
                                      "time timestamp_ntz, x double, city string, n bigint")  # fmt: skip
        frame.createOrReplaceTempView(name)
    yield
    for name in NAMES:
        spark.catalog.dropTempView(name)


def served(rows, text):
    server = Server()
    server.add(1, text)
    server.feed(rows)
    found = server.answers().get(1, Counter())
    return found, [server.mark(source) for source in range(len(NAMES))]


def sparks(spark, text):
    for ours, theirs in SPARK_WORDS.items():
        text = text.replace(ours, theirs)
    return Counter(tuple(plain(v) for v in row) for row in spark.sql(text).collect())


def test_expressions_mean_what_they_mean_in_spark(spark, views, rows) -> None:
    found, _ = served(rows, f"SELECT {', '.join(EXPRESSIONS)} FROM alpha WHERE n > 0 AND city <> 'birch'")
    theirs = sparks(spark, f"SELECT {', '.join(EXPRESSIONS)} FROM alpha WHERE n > 0 AND city <> 'birch'")
    for i, expression in enumerate(EXPRESSIONS):
        assert column(found, i) == column(theirs, i), expression
    assert found == theirs


def column(counter, i):
    one: Counter[Any] = Counter()
    for row, times in counter.items():
        one[row[i]] += times
    return one


def test_windows_mean_what_they_mean_in_spark(spark, views, rows) -> None:
    text = "SELECT city, {} FROM beta WHERE n > 0 GROUP BY city, {} HAVING count(*) > 1"
    listed = ", ".join(AGGREGATES)
    found, marks = served(rows, text.format(listed, "TUMBLE(time, INTERVAL '10 seconds')"))
    done = f"HAVING count(*) > 1 AND window.end <= TIMESTAMP_NTZ '1970-01-01' + make_dt_interval(0, 0, 0, {marks[1] / 1e6})"
    theirs = sparks(
        spark, text.format(listed, "window(time, '10 seconds')").replace("HAVING count(*) > 1", done)
    )
    assert found == theirs
    assert len(found) > 5
    hopped, marks = served(
        rows, "SELECT n, sum(x) FROM gamma GROUP BY n, HOP(time, INTERVAL '5 seconds', INTERVAL '15 seconds')"
    )
    over = f"SELECT n, sum(x) FROM gamma GROUP BY n, window(time, '15 seconds', '5 seconds') {done.replace('count(*) > 1', 'true')}"
    assert hopped == sparks(spark, over.replace(str(marks[1] / 1e6), str(marks[2] / 1e6)))


def test_joins_mean_what_they_mean_in_spark(spark, views, rows) -> None:
    text = (
        "SELECT a.time, a.x, b.x, c.n FROM alpha a JOIN beta b ON a.city = b.city AND b.time BETWEEN a.time - INTERVAL '3 seconds' AND a.time "
        "JOIN gamma c ON c.n = a.n AND c.time BETWEEN a.time AND a.time + INTERVAL '4 seconds' WHERE a.x > 1"
    )
    found, _ = served(rows, text)
    assert found == sparks(spark, text)
    assert found
