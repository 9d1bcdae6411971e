"""Rows with a column of every type that Spark has and a stage carries."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

COLUMNS = {
    "tags": "case i % 4 when 0 then null when 1 then array() when 2 then array('a', null) else array('b', 'c') end",
    "pos": "named_struct('x', i * 0.5D, 'label', if(i % 3 = 0, null, concat('n', i)))",
    "attrs": "if(i % 5 = 0, null, map('k', cast(i as long), concat('j', i), null))",
    "deep": "array(named_struct('m', map(i, array(timestamp'2024-01-01 00:00:00', null))))",
    "dec": "array(cast(i / 7 as decimal(30, 10)))",
    "doc": "parse_json(concat('{\"a\":[', i, ']}'))",
    "docs": "array(parse_json('1'))",
    "gap": "make_dt_interval(0, i)",
    "hours": "interval '5' hour",
    "gaps": "array(make_dt_interval(0, i))",
    "term": "make_ym_interval(1, i)",
    "nothing": "null",
    "nothings": "array(null, null)",
    "hollow": "array(array(null), array())",
    "zones": "map('a', named_struct('t', array(t, null), 'n', null))",
    "name": "collate(concat('Name', i), 'UTF8_LCASE')",
    "names": "array(collate('N', 'UTF8_LCASE'))",
    "short": "cast('ab' as varchar(5))",
}


def typed_rows(spark: Any) -> DataFrame:
    """Twelve rows, one of every type in each; k has four values."""
    rows = spark.range(12).selectExpr("id % 4 as k", "cast(id as int) as i").coalesce(1)
    rows = rows.withColumn("t", F.expr("timestamp'2024-01-01 00:00:00' + make_dt_interval(0, 0, i)"))
    return rows.selectExpr("k", "i", "t", *(
        f"{text} as {name}" for name, text in COLUMNS.items()
    ))  # fmt: skip
