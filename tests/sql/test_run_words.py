"""Why a query failed while it ran: the value and what to write instead, and no word of the engine."""

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import QueryFailed
from headgate.sql.engine import Engine, Function
from headgate.sql.run_words import UNKNOWN, why_it_failed

ROWS = pa.table(
    {
        "s": ["abc", "12"],
        "n": pa.array([2**63 - 1, 0], pa.int64()),
        "x": [-1.0, 1e308],
        "j": ['{"a": "q"}', '{"a": [1]}'],
        "long": ["a" * 5_000, "two\nlines"],
        "ts": pa.array([0, 253402300799 * 10**6], pa.timestamp("us")),
    }
)
FAILS = {
    "CAST(s AS BIGINT)": "'abc' is no bigint: TRY_CAST gives NULL instead",
    "CAST(s AS DOUBLE)": "'abc' is no double: TRY_CAST gives NULL instead",
    "CAST(s AS BOOLEAN)": "'abc' is no boolean: TRY_CAST gives NULL instead",
    "CAST(s AS TIMESTAMP)": "'abc' is no timestamp: write YYYY-MM-DD HH:MM:SS, or TRY_CAST gives NULL instead",
    "CAST(s || '-13-45' AS TIMESTAMP)": "'abc-13-45' is no timestamp: write YYYY-MM-DD HH:MM:SS, or TRY_CAST gives NULL instead",
    "CAST('2024-13-0' || CAST(n % 9 AS VARCHAR) AS TIMESTAMP)": "'2024-13-07' is no timestamp that exists: TRY_CAST gives NULL instead",
    "CAST(long AS BIGINT)": f"'{'a' * 57}...' is no bigint: TRY_CAST gives NULL instead",
    "CASE WHEN long LIKE 'two%' THEN CAST(long AS BIGINT) END": "'two lines' is no bigint: TRY_CAST gives NULL instead",
    "CAST(x AS BIGINT)": "1e+308 is too large for bigint: TRY_CAST gives NULL instead",
    "CAST(s AS BIGINT[])": "'abc' is no bigint[]: TRY_CAST gives NULL instead",
    "n + 1": "9223372036854775807 + 1 is too large for its type (addition)",
    "n * 2": "9223372036854775807 * 2 is too large for its type (multiplication)",
    "abs(-n - 1)": "abs(-9223372036854775808) is too large for its type",
    "n // (n - n)": "a value is divided by 0: nullif(divisor, 0) gives NULL instead",
    "n % (n - n)": "a value is divided by 0: nullif(divisor, 0) gives NULL instead",
    "make_timestamp(n)": "a date lies outside of what a timestamp can hold (about the years -290000 to 294000)",
    "ts + to_years(300000)": "a date lies outside of what a timestamp can hold (about the years -290000 to 294000)",
    "to_seconds(n)": "a date lies outside of what a timestamp can hold (about the years -290000 to 294000)",
    "ts + INTERVAL 1 DAY * n": "9223372036854775807 is too large for integer: TRY_CAST gives NULL instead",
    "strptime(s, '%Y-%m-%d')": "'abc' does not have the format '%Y-%m-%d': try_strptime gives NULL instead",
    "CAST(TRY_CAST(j AS JSON) -> '$.a' AS BIGINT)": "the JSON value [1] is no number: TRY_CAST gives NULL instead",
    "CAST(TRY_CAST(j AS JSON) -> '$.a' AS BIGINT[])": 'the JSON value "q" is no list: TRY_CAST gives NULL instead',
    "CAST(s AS JSON)": "a text is no JSON: json_valid tells which are",
    "substring(s, n, 3)": "substring begins or ends further away than it can (4294967295 characters)",
    "shaky(x)": "a function failed: ValueError: no nulls please",
    "hg_regex_replace(repeat(s, 1000), '.', repeat('a', 5000), 'g')": "regexp_replace made a text of more than 100000 bytes",
}
FOREIGN = re.compile(r" Error:|INT64|INT32|UDF|Exception|column [a-z]|LINE \d|SET |specifier|DuckDB|hg_")


def shaky(_):
    raise ValueError("no nulls please")


@pytest.fixture(scope="module")
def engine():
    engine = Engine({"shaky": Function("shaky", ("double",), "double", shaky)}, memory="100MB")
    engine.give(r=ROWS)
    yield engine
    engine.close()


@pytest.mark.parametrize("expression", FAILS, ids=lambda text: text[:30])
def test_a_value_that_cannot_be_computed_is_named_in_our_words(engine, expression) -> None:
    with pytest.raises(QueryFailed) as failed:
        engine.ask(f"SELECT {expression} AS o FROM r")
    why = why_it_failed(str(failed.value.__cause__))
    assert why != UNKNOWN
    assert not FOREIGN.search(why), why
    assert why == FAILS[expression]


@given(st.text(max_size=200))
def test_any_sentence_of_the_engine_gives_one_short_line_and_ours_stay(text) -> None:
    for begin in (
        "Conversion Error: Could not convert string '",
        "Invalid Input Error: ",
        "Internal Error: ",
    ):
        why = why_it_failed(f"{begin}{text}' to INT64 when casting from source column v0")
        assert len(why) < 300
        assert "\n" not in why
        assert not why.startswith(begin)
    assert why_it_failed("it takes too long") == "it takes too long"
    assert why_it_failed("Surprising Error: something else") == UNKNOWN
