# ruff: noqa: E501 (queries)
"""JSON paths, regular expressions, dates and lists mean what they mean in DuckDB."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.sql import world
from tests.sql.useful import BODIES, DATES, EVENT, EVERY, REGEX, SAFE, events, named_events

from headgate.errors import QueryFailed, QueryRefused
from headgate.sql.source_schema import SourceSchema

KINDS = {"events": EVENT}


def served(monkeypatch, texts, *batches):
    """The answers of queries over events, by number."""
    monkeypatch.setattr(world, "NAMES", ("events",))
    monkeypatch.setattr(world, "KINDS", KINDS)
    server = world.Server()
    for number, text in enumerate(texts):
        server.add(number, text)
    for rows in batches:
        server.feed(rows)
    return server


@pytest.mark.parametrize("family", sorted(EVERY))
def test_expressions_mean_what_they_mean_in_duckdb(monkeypatch, family) -> None:
    expressions, rows = EVERY[family], events(1, 120)
    found = list[Counter[object]]()
    for i in range(0, len(expressions), 7):  # as many as one query may have
        some = ", ".join(expressions[i : i + 7])
        server = served(monkeypatch, [f"SELECT {some} FROM events"], rows)
        answers = server.answers()[0]
        found += [column(answers, j) for j in range(len(expressions[i : i + 7]))]
    for expression, ours in zip(expressions, found, strict=True):
        theirs = expression.replace("get_json_object", "json_extract_string")
        expected = world.asked(f"SELECT {theirs} FROM {SAFE}", events=named_events(rows))
        assert ours == column(expected, 0), expression
    assert sum(len(ours) > 1 for ours in found) > 0.7 * len(expressions)


def column(counter, i):
    one: Counter[object] = Counter()
    for row, times in counter.items():
        one[row[i]] += times
    return one


@pytest.mark.parametrize(
    "text",
    [
        "SELECT body ->> '$.s', count(*), max(CAST(body ->> '$.n' AS BIGINT)) FROM events GROUP BY body ->> '$.s', {}",
        "SELECT regexp_extract(line, '^\\w+') AS verb, count(*), approx_count_distinct(line) FROM events WHERE line ~ '.' GROUP BY regexp_extract(line, '^\\w+'), {}",
        "SELECT date_trunc('month', ts), count(*), min(ts), max(epoch(ts - time)) FROM events GROUP BY date_trunc('month', ts), {}",
        "SELECT split(line, ' ')[1], count(DISTINCT line) FROM events GROUP BY split(line, ' ')[1], {} HAVING count(*) > 1",
        "SELECT count(*), max(len(string_split(line, ' '))) FROM events WHERE json_valid(body) GROUP BY string_split(line, ' '), {}",
    ],
)
def test_they_work_in_windows(monkeypatch, text) -> None:
    rows = events(2, 150)
    server = served(
        monkeypatch, [text.format("TUMBLE(time, INTERVAL '30 seconds')")], rows.slice(0, 70), rows.slice(70)
    )
    bucket = "time_bucket(INTERVAL '30 seconds', time, TIMESTAMP '1970-01-01')"
    plain = text.format(bucket).replace(
        "FROM events",
        f"FROM (SELECT * FROM {SAFE} WHERE {bucket} + INTERVAL '30 seconds' <= make_timestamp({server.mark(0)}))",
    )
    plain = plain.replace("approx_count_distinct(line)", "count(DISTINCT line)")
    assert server.answers()[0] == world.asked(plain, events=named_events(rows))


def test_what_is_no_json_is_null_and_stops_nothing(monkeypatch) -> None:
    hard = [
        "[" * 5_000,
        '{"a":' * 1_000 + "1" + "}" * 1_000,
        '"\\ud800"',
        '{"a": 1e999}',
        "{'a': 1}",
        "\x00",
        *BODIES,
    ]
    rows = events(3, len(hard)).set_column(2, "v0", pa.array(hard))
    server = served(
        monkeypatch,
        ["SELECT body -> '$.a', body ->> '$.a.a', json_type(body), json_array_length(body) FROM events"],
        rows,
    )
    assert sum(server.answers()[0].values()) == len(hard)


def test_queries_share_a_template_whatever_their_patterns(monkeypatch) -> None:
    texts = [
        f"SELECT line FROM events WHERE line ~ '{p}' AND n > {n}"
        for n, p in enumerate(["a", "^G", "[0-9]+$", "a"])
    ]
    server = served(monkeypatch, texts, events(4, 100))
    assert len(server.templates) == 1
    for number, text in enumerate(texts):
        assert server.answers()[number] == world.asked(text, events=named_events(events(4, 100)))


def test_a_remembered_shape_checks_its_new_pattern() -> None:
    world.PREPARER.prepare("SELECT n FROM events WHERE line ~ 'fine'", KINDS)
    world.PREPARER.prepare("SELECT regexp_replace(line, '(a)', '\\1') FROM events", KINDS)
    for text in (
        "SELECT n FROM events WHERE line ~ 'not('",
        "SELECT regexp_replace(line, 'a', '\\1') FROM events",
    ):
        with pytest.raises(QueryRefused) as caught:
            world.PREPARER.prepare(text, KINDS)
        assert caught.value.reason == "pattern"
        assert text[caught.value.column - 1] == "'"


def test_extract_is_remembered_too() -> None:
    """FROM after EXTRACT names no source."""
    from headgate.sql.text import shape_of

    text = "SELECT extract(hour FROM ts) FROM events WHERE extract( minute  from ts) > 5"
    assert shape_of(text).sources == ("events",)
    assert world.PREPARER.prepare(text, KINDS).sources == ("events",)


def test_times_are_utc_wherever_the_engine_runs(monkeypatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    rows = events(5, 20)
    server = served(
        monkeypatch, [f"SELECT {', '.join(DATES[:6])}, to_timestamp(epoch(ts)) FROM events"], rows
    )
    assert {row[-1] for row in server.answers()[0]} == set(rows.column("t0").to_pylist())


def test_a_text_that_grows_without_bound_stops_its_query(monkeypatch) -> None:
    grow = "line"
    for _ in range(6):
        grow = f"regexp_replace({grow}, '.', '{'x' * 50}', 'g')"
    with pytest.raises(QueryFailed, match="more than 100000 bytes"):
        served(monkeypatch, [f"SELECT length({grow}) FROM events"], events(6, 10))


def test_every_pattern_of_the_table_is_taken() -> None:
    rng = np.random.default_rng(1)
    for expression in rng.permutation(np.array(REGEX))[:5]:
        assert world.PREPARER.prepare(f"SELECT {expression} FROM events", KINDS)


def examples_of_the_page():
    """The expressions in the page's table of what is supported."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "service.md").read_text()
    rows = [
        line for line in page.splitlines() if line.startswith(("| JSON", "| regular", "| dates", "| lists"))
    ]
    spans = [span for row in rows for span in re.findall(r"`([^`]+)`", row)]
    return [
        span
        for span in spans
        if any(sign in span for sign in ("(", "->", "~ '", "[")) and "list" not in span.replace("list_", "")
    ]


def test_the_examples_of_the_page_are_taken() -> None:
    columns = {
        "body": "varchar",
        "x": "varchar",
        "a": "timestamp",
        "b": "timestamp",
        "n": "bigint",
        "i": "bigint",
        "seconds": "double",
    }
    kinds = {"events": SourceSchema(columns)}
    found = examples_of_the_page()
    assert len(found) > 15
    for example in found:
        condition = "SELECT n FROM events WHERE coalesce(CAST({} AS VARCHAR), '') <> ''"
        assert world.PREPARER.prepare(condition.format(f"({example})"), kinds), example


def test_more_queries_than_rows_are_computed_in_parts(monkeypatch) -> None:
    texts = [
        f"SELECT line, n FROM events WHERE line ~ '[{chr(97 + i)}G]' AND n >= {i % 3}" for i in range(25)
    ]
    texts += [
        f"SELECT count(*) FROM events WHERE line ~ '{i}|a' GROUP BY TUMBLE(time, INTERVAL '2 seconds')"
        for i in range(25)
    ]
    rows = events(8, 10)
    server = served(monkeypatch, texts, rows)
    assert [t.patterned for t in server.templates.values()] == [True, True]
    for number, text in enumerate(texts[:25]):
        assert server.answers().get(number, {}) == world.asked(text, events=named_events(rows))
    bucket = "time_bucket(INTERVAL '2 seconds', time, TIMESTAMP '1970-01-01')"
    for number, text in enumerate(texts[25:], start=25):
        done = f"{bucket} + INTERVAL '2 seconds' <= make_timestamp({server.mark(0)})"
        plain = text.replace("TUMBLE(time, INTERVAL '2 seconds')", bucket).replace(
            " GROUP", f" AND {done} GROUP"
        )
        assert server.answers().get(number, {}) == world.asked(plain, events=named_events(rows)), text
