# ruff: noqa: E501 (tables of texts)
"""Statements at random, most of them hostile, and rows to match: no batch fails, and a neighbour misses nothing."""

import numpy as np
import pyarrow as pa
import pytest
from tests.service.local import Local
from tests.sql.world import asked, named, rows_of

from headgate.service.queries import Query
from headgate.sql.limits import Limits

LEAVES = ["x", "n", "city", "time", "1", "0", "-1", "1e308", "9223372036854775807", "99999999999999999999", "1e999", "'%a%a%'",
          "'_'", "''", "'x''y'", "NULL", "true", "'9999-12-31'", "'infinity'", "0.5", "INTERVAL '999999999 years'", "INTERVAL '-1 month'", "[x, n]", "'(a|b)*c'", "'$.a[*]'",
          "string_split(city, '')", "TIMESTAMP '9999-12-31'"]  # fmt: skip
SHAPES = ["({} + {})", "({} * {})", "({} / {})", "({} % {})", "({} || {})", "({} LIKE {})", "({} ILIKE {})", "({} = {})", "({} < {})",
          "pow({}, {})", "substring({}, {})", "coalesce({}, {})", "nullif({}, {})", "greatest({}, {})", "CAST({} AS BIGINT) + {}",
          "CAST({} AS TIMESTAMP) = {}", "CASE WHEN {} THEN {} END", "({} IN ({}))", "round({}, 3) + {}", "ARRAY[{}, {}]", "ROW({}, {})",
          "exp({}) - {}", "starts_with({}, {})", "CAST({} AS DOUBLE) > {}", "({} AND {})",
          "({} ~ '(a*)*b') = {}", "regexp_extract({}, '((a?){{9}}){{9}}', 1) || {}", "regexp_replace({}, '.', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 'g') || {}",
          "regexp_replace({}, '(.)', '\\1\\1\\1\\1', 'g') = {}", "({} ~ {})", "(({}) -> '$.a') = {}", "(({}) ->> '$[*]')[1] || {}", "CAST(({}) -> 0 AS BIGINT[])[1] = {}",
          "json_array_length({}) + {}", "string_split({}, '')[{}]", "split({}, {})[1]", "list_contains([{}], {})", "({} = ANY([{}]))", "[{}, {}][1]",
          "date_trunc('year', {}) = {}", "({} + {} * INTERVAL '1 day')", "epoch({} - {})", "date_diff('microsecond', {}, {})", "to_timestamp({}) > {}", "strftime({}, '%c') || {}",
          "extract(epoch FROM {}) + {}", "TRY_CAST({} AS VARCHAR[])[{}]"]  # fmt: skip
TAILS = ["", " GROUP BY TUMBLE(time, INTERVAL '2 seconds')", " GROUP BY {}, HOP(time, INTERVAL '1 second', INTERVAL '4 seconds')",
         " GROUP BY {}, LAST 3 ROWS"]  # fmt: skip
HEADS = ["SELECT {} FROM alpha", "SELECT x FROM alpha WHERE {}", "SELECT sum({}) FROM alpha", "SELECT max({}), count(*) FROM alpha",
         "SELECT median({}) FROM alpha", "SELECT a.x FROM alpha a JOIN beta b ON {} AND b.time BETWEEN a.time AND a.time",
         "SELECT a.x FROM alpha a LEFT JOIN beta b ON {} AND b.time BETWEEN a.time - INTERVAL '1 second' AND a.time", "SELECT approx_count_distinct({}), count(DISTINCT x) FROM alpha",
         "SELECT y FROM (SELECT time, {} AS y, x, n, city FROM alpha UNION ALL SELECT time, NULL, x, n, city FROM beta) u", "SELECT {} FROM alpha UNION ALL SELECT x FROM beta"]  # fmt: skip
GOOD = "SELECT x, city FROM alpha WHERE n > 2"


def expression(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        return str(rng.choice(LEAVES))
    return str(rng.choice(SHAPES)).format(expression(rng, depth - 1), expression(rng, depth - 1))


def statement(rng):
    head, tail = str(rng.choice(HEADS)), str(rng.choice(TAILS))
    return head.format(expression(rng, int(rng.integers(1, 5)))) + tail.format(expression(rng, 1))


def rows_with_bad_ones(rng):
    rows = rows_of(rng, 120)
    texts = pa.array(rng.choice(["1", "", "a" * 3_000, "%a%", "x\0y", "-9223372036854775808"], 120))
    numbers = pa.array(rng.choice([0, 1, 3, (1 << 63) - 1, -(1 << 63)], 120), pa.int64())
    values = pa.array(rng.choice([0.0, 1.5, 1e308, -1e308, float("inf"), float("nan")], 120))
    rows = rows.set_column(3, "v0", texts).set_column(4, "l0", numbers).set_column(2, "d0", values)
    times = np.where(
        rng.random(120) < 0.05,
        rng.choice([-(1 << 62), (1 << 63) - 1], 120),
        rows.column("time").cast(pa.int64()).to_numpy(),
    )
    return rows.set_column(1, "time", pa.array(times, pa.timestamp("us")))


@pytest.mark.parametrize(
    ("count", "seed"), [(150, 1), *(pytest.param(2_000, 2 + i, marks=pytest.mark.full) for i in range(10))]
)
@pytest.mark.timeout(900)
def test_no_statement_stops_a_batch(tmp_path, count, seed) -> None:
    rng = np.random.default_rng(seed)
    local = Local(
        tmp_path, limits=Limits(seconds=2.0, tenant_seconds=6.0, batch_part=1e9), memory="200MB", servers=2
    )
    bob = local.service.authenticate(local.service.add_tenant("bob"))
    for source in ("alpha", "beta"):
        local.service.grant(local.ann, source, "bob")
    (good,) = local.add(GOOD)
    taken, expected = 0, 0
    for _ in range(count // 50):
        answers = local.service.register(bob, [(statement(rng), "") for _ in range(50)])
        taken += sum(isinstance(answer, Query) for answer in answers)
        rows = rows_with_bad_ones(rng)
        local.feed(rows)
        mine = named(rows, 0)
        usable = mine.filter(pa.array(np.abs(mine.column("time").cast(pa.int64()).to_numpy()) < 1 << 60))
        expected += sum(asked(GOOD, alpha=usable).values())
    assert taken > count // 20
    assert local.service.get_query(local.ann, good).state == "active"
    assert sum(local.answers(good, limit=1_000).values()) == expected
    local.service.close()
