# ruff: noqa: E501 (queries)
"""Rows with documents, texts and times, and the expressions over them that tests compare with DuckDB and with Spark."""

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa

from headgate.sql.source_schema import SourceSchema

EVENT = SourceSchema({"body": "varchar", "line": "varchar", "ts": "timestamp", "n": "bigint", "x": "double"})
BODIES = [
    '{"a": {"b": [1, 2, 3]}, "s": "text", "n": 5, "f": 1.5, "t": true, "list": ["p", "q"]}',
    '{"a": {"b": []}, "s": "5", "n": -1, "f": 0.25, "t": false, "list": []}',
    '{"a": null, "s": "é\\n", "list": ["p"]}', "[1, 2]", "7", '"x"', "null", "{}", "", "{bad", '{"a": ', None,
]  # fmt: skip
LINES = [
    "GET /a/b 200",
    "POST /c 404 slow",
    "get /a",
    "",
    "a,b,,c",
    "192.168.0.1 - -",
    "ärger\nnew",
    "aaa",
    None,
]


def events(seed, count):
    """Rows of one source with the columns of EVENT, in their slots."""
    rng = np.random.default_rng(seed)
    start = datetime(2026, 1, 1, 22, 58, 7, 123456)
    moments = [start + timedelta(seconds=int(s)) for s in rng.integers(0, 10**7, count)]
    return pa.table(
        {
            "source": pa.array([0] * count, pa.int32()),
            "time": pa.array([timedelta(seconds=i) / timedelta(microseconds=1) for i in range(count)]).cast(pa.int64()).cast(pa.timestamp("us")),
            "v0": pa.array([BODIES[i] for i in rng.integers(0, len(BODIES), count)]),
            "v1": pa.array([LINES[i] for i in rng.integers(0, len(LINES), count)]),
            "t0": pa.array(moments, pa.timestamp("us")),
            "l0": pa.array(rng.integers(0, 5, count), pa.int64()),
            "d0": pa.array(rng.integers(-8, 8, count) / 4),
        }
    )  # fmt: skip


def named_events(rows):
    """The rows under the names that their users know."""
    return rows.drop_columns(["source"]).rename_columns(["time", "body", "line", "ts", "n", "x"])


SAFE = "(SELECT time, CASE WHEN json_valid(body) THEN body END AS body, line, ts, n, x FROM events)"
"""What DuckDB reads: it stops at a document that is none, which is null here."""
JSON = (
    "body ->> '$.a.b[0]'", "body ->> '$.s'", "body -> '$.a'", "json_extract(body, '$.list[1]')", "json_extract_string(body, '$.list[0]')", "body ->> 's'",
    "(body -> 'a') ->> 'b'", "(body -> 'list') ->> 0", "CAST(body ->> '$.n' AS BIGINT) + 1", "CAST(body ->> '$.f' AS DOUBLE) * 2", "CAST(body -> '$.t' AS BOOLEAN)",
    "json_array_length(body, '$.a.b')", "json_array_length(body -> 'list')", "json_type(body)", "json_type(body, '$.s')", "body ->> 's' = '5'", "json_value(body, '$.n')",
    "coalesce(body ->> '$.nothing', 'none')", "len(json_extract(body, '$.a.b[*]'))", "CAST(body -> '$.a.b' AS BIGINT[])[2]", "length(body -> '$.a')",
    "json_extract_string(body, '$.list[*]')[1]", "get_json_object(body, '$.s')",
)  # fmt: skip
REGEX = (
    "line ~ 'a'", "line !~ '^GET'", "line ~* '^get'", "line ~ '.'", "regexp_matches(line, '^[A-Z]+ ')", "regexp_matches(line, 'GET', 'i')", "regexp_matches(line, 'r.n')",
    "regexp_matches(line, 'r.n', 's')", "regexp_full_match(line, '[a-z]+')", "regexp_full_match(line, 'a|aaa')", "regexp_extract(line, '[0-9]+')", "regexp_extract(line, '([A-Z]+) (/\\w+)', 1)",
    "regexp_extract(line, '([A-Z]+) (/\\w+)', 2)", "regexp_extract(line, '(x)?a', 1)", "regexp_extract(line, 'zzz')", "regexp_extract(line, 'A(.)', 1, 'i')", "regexp_replace(line, 'a', '<\\0>')",
    "regexp_replace(line, '(a)(.)?', '\\2\\1', 'g')", "regexp_replace(line, 'G', '', 'gi')", "regexp_replace(line, '[äé]', 'ae')", "line ~ '(?i)GET'", "line ~ '^(?:a|b)'", "line ~ '(?P<q>a)b'",
    "regexp_extract(line, '(?P<q>a)(b)?', 2)", "line ~ '[\\](]'", "line ~ '\\Qa,b\\E'", "line ~ '\\d{3}\\.\\d'", "length(regexp_replace(line, '.', 'xy', 'g'))",
)  # fmt: skip
DATES = (
    "date_trunc('hour', ts)", "date_trunc('week', ts)", "date_trunc('month', ts)", "date_trunc('minute', time)", "extract(hour FROM ts)", "extract(year FROM ts)", "date_part('minute', ts)",
    "date_part('dow', ts)", "extract(epoch FROM ts)", "extract(doy FROM ts)", "year(ts)", "month(ts)", "day(ts)", "hour(ts)", "minute(ts)", "second(ts)", "quarter(ts)", "week(ts)", "dayofweek(ts)",
    "dayofyear(ts)", "isodow(ts)", "ts + INTERVAL '5 minutes'", "ts - INTERVAL 90 SECONDS", "ts + INTERVAL '1 month'", "ts + n * INTERVAL '1 day'", "epoch(ts - TIMESTAMP '2026-01-01')",
    "ts > TIMESTAMP '2026-02-01 12:00:00'", "ts BETWEEN TIMESTAMP '2026-02-01' AND TIMESTAMP '2026-03-01'", "date_diff('second', TIMESTAMP '2026-01-01', ts)", "date_diff('month', TIMESTAMP '2026-01-01', ts)",
    "epoch(ts)", "epoch_ms(ts)", "strftime(ts, '%Y-%m-%d %H:%M')", "CAST('2026-03-04 05:06:07' AS TIMESTAMP)", "CAST(ts AS VARCHAR)", "strptime('04/03/2026', '%d/%m/%Y')", "TRY_CAST(line AS TIMESTAMP)",
    "ts - INTERVAL '1 hour' < ts", "date_trunc('day', ts) + INTERVAL '8 hours'", "ts = date_trunc('second', ts)",
)  # fmt: skip
LISTS = (
    "string_split(line, ' ')[1]", "split(line, ',')[3]", "split_part(line, ' ', 2)", "split_part(line, ' ', -1)", "[n, 10, 20][2]", "[x, n][1]", "[n][n]", "len(string_split(line, ' '))", "array_length([n, 1])",
    "list_contains([1, 2], n)", "array_contains(string_split(line, ','), 'b')", "n = ANY([1, 3])", "line = ANY(string_split('aaa,b', ','))",
    "list_extract([n, 7], 2)", "list_position([3, 4], n)", "string_split(line, ' ')[-1]", "string_split(line, ' ')[9]", "CAST(string_split('1,2', ',') AS BIGINT[])[2] + n", "ARRAY[n, 2][1]",
    "contains(line, 'a')", "substr(line, 2, 2)", "power(n, 2)", "ifnull(line, '-')", "ceiling(x)",
)  # fmt: skip
EVERY = {"json": JSON, "regex": REGEX, "dates": DATES, "lists": LISTS}
