# ruff: noqa: E501 (queries)
"""The service's SQL beside Spark's own reading of the same text over the same rows."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.sql import world
from tests.sql.test_union import FULL, LATER, LEFT, ROWS
from tests.sql.useful import EVENT, events, named_events
from tests.sql.world import NAMES, SECOND, Server, named, plain, rows_of

EXPRESSIONS = (
    "x + n", "x - 2 * n", "x / 4", "n / 2", "n % 3", "-n % 3", "x > 1.5e0", "x >= n AND n <> 2", "n = 1 OR x IS NULL", "NOT n > 2", "n BETWEEN 1 AND 3",
    "n IN (1, 3)", "city LIKE 'a%'", "city LIKE '%r'", "city || '-' || city", "CASE WHEN x > 1 THEN 'up' WHEN x < 0 THEN 'down' ELSE city END",
    "CAST(n AS DOUBLE) / 3", "CAST(n AS VARCHAR)", "abs(x)", "ceil(x)", "floor(x)", "coalesce(x, 0e0)", "exp(n)", "greatest(n, 2)", "least(n, 2)", "length(city)",
    "lower(city)", "upper(city)", "nullif(n, 2)", "pow(n, 2)", "round(x, 1)", "round(x)", "sign(x)", "sqrt(n)", "ln(n + 1)", "starts_with(city, 'a')",
    "substring(city, 2, 2)", "trim(city)", "city = 'ash'", "x IS NOT NULL", "n * 1000000",
)  # fmt: skip
AGGREGATES = (
    "count(*)", "count(x)", "sum(n)", "sum(x)", "avg(x)", "min(x)", "max(city)", "count(DISTINCT city)", "stddev_samp(n)", "stddev_pop(n)", "var_samp(n)",
    "var_pop(n)", "median(n)", "max(x) - min(x)", "sum(n) * 2", "approx_count_distinct(n)",
)  # fmt: skip
USEFUL = (
    "get_json_object(body, '$.a.b[0]')", "get_json_object(body, '$.s')", "get_json_object(body, '$.a')", "CAST(get_json_object(body, '$.n') AS BIGINT) + 1",
    "CAST(get_json_object(body, '$.f') AS DOUBLE)", "line RLIKE '^[A-Z]+ '", "regexp_like(line, '[0-9]+')", "regexp_extract(line, '([A-Z]+) (/[a-z]+)', 2)",
    "regexp_extract(line, '[a-z]+', 0)", "regexp_replace(line, '[a-z]', '<>', 'g')", "CAST(date_trunc('hour', ts) AS TIMESTAMP)", "CAST(date_trunc('month', ts) AS TIMESTAMP)",
    "extract(hour FROM ts)", "extract(doy FROM ts)", "extract(week FROM ts)", "date_part('minute', ts)", "year(ts)", "month(ts)", "day(ts)", "hour(ts)", "minute(ts)", "second(ts)", "quarter(ts)",
    "dayofyear(ts)", "ts + INTERVAL '5 minutes'", "ts - INTERVAL '1 month'", "ts > TIMESTAMP '2026-02-01 12:00:00'", "element_at(split(line, ' '), 1)",
    "array_contains(split(line, ','), 'b')", "split_part(line, ' ', 2)", "contains(line, 'a')", "substr(line, 2, 2)", "power(n, 2)", "ifnull(line, '-')", "ceiling(x)",
)  # fmt: skip
SPARK_WORDS = {
    "VARCHAR": "STRING",
    "starts_with": "startswith",
    "AS TIMESTAMP)": "AS TIMESTAMP_NTZ)",
    "> TIMESTAMP '": "> TIMESTAMP_NTZ '",
    ", 'g')": ")",
}


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
    return found, [server.mark(source) for source in range(len(world.NAMES))]


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


def test_unions_and_outer_joins_mean_what_they_mean_in_spark(spark, views, rows) -> None:
    for text in ROWS[:2]:
        found, _ = served(rows, text)
        assert found == sparks(spark, text), text
    for text, later in zip(LEFT[:3], LATER, strict=False):
        found, marks = served(rows, text)
        moment = f"TIMESTAMP_NTZ '1970-01-01' + make_dt_interval(0, 0, 0, {min(marks[0], marks[1] - later * SECOND) / 1e6})"
        assert found == sparks(spark, f"{text} AND (b.time IS NOT NULL OR a.time < {moment})"), text
        assert found
    for text, before, after in FULL[:1]:
        found, marks = served(rows, text)
        mark = min(marks[0] - before * SECOND, marks[1] - after * SECOND)
        moment = f"TIMESTAMP_NTZ '1970-01-01' + make_dt_interval(0, 0, 0, {mark / 1e6})"
        pair = "a.time IS NOT NULL AND b.time IS NOT NULL"
        assert found == sparks(spark, f"{text} WHERE {pair} OR coalesce(a.time, b.time) < {moment}"), text
        assert found


def test_documents_patterns_dates_and_lists_mean_what_they_mean_in_spark(spark, monkeypatch) -> None:
    monkeypatch.setattr(world, "NAMES", ("events",))
    monkeypatch.setattr(world, "KINDS", {"events": EVENT})
    rows = events(1, 100)
    frame = spark.createDataFrame(named_events(rows).to_pandas().replace({np.nan: None}),
                                  "time timestamp_ntz, body string, line string, ts timestamp_ntz, n bigint, x double")  # fmt: skip
    frame.createOrReplaceTempView("events")
    for i in range(0, len(USEFUL), 7):
        some = USEFUL[i : i + 7]
        text = f"SELECT {', '.join(some)} FROM events"
        found, theirs = served(rows, text)[0], sparks(spark, text)
        for j, expression in enumerate(some):
            assert column(found, j) == column(theirs, j), expression
    spark.catalog.dropTempView("events")
