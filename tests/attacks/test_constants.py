"""Constants are checked where they enter: a query that fails whatever row comes is refused when it is registered, in our own
words, and not stopped at its first rows. Also in bulk, and where only the constants of a remembered text are new.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.service.local import Local
from tests.sql.test_run_words import FOREIGN
from tests.sql.world import ENGINE, PREPARER, rows_of
from tests.sql.world import KINDS as SOURCES

from headgate.errors import QueryRefused
from headgate.service.queries import Query
from headgate.sql.prepare import Preparer
from headgate.sql.trial import ROWS, Part, plainly_right, why_never

WINDOW = "FROM alpha GROUP BY TUMBLE(time, INTERVAL '1 second')"
NEAR = "b.time BETWEEN a.time - INTERVAL '1 second' AND a.time + INTERVAL '1 second'"
REFUSED = {
    # lists of mixed constants
    "SELECT x FROM alpha WHERE x IN (1, 'a')": "one kind",
    "SELECT x FROM alpha WHERE city IN (-1, 'a')": "one kind",
    f"SELECT sum(n) {WINDOW} HAVING sum(n) IN (1, 'a')": "one kind",
    f"SELECT a.x FROM alpha a JOIN beta b ON {NEAR} AND a.n = b.n AND a.x IN (1, 'a')": "one kind",
    "SELECT y FROM (SELECT x AS y FROM alpha WHERE x IN (1, 'a') UNION ALL SELECT x FROM beta) u": "one kind",
    "SELECT x FROM alpha WHERE x IN ('a', 'b')": "'a' is no double",
    "SELECT x FROM alpha WHERE city IN (1, 2)": "varchar and bigint cannot be compared",
    "SELECT x FROM alpha WHERE city = 5": "varchar and bigint cannot be compared",
    "SELECT nullif(city, 5) FROM alpha": "varchar and bigint cannot be compared",
    "SELECT CASE x WHEN 1 THEN 2 WHEN 'a' THEN 3 END FROM alpha": "'a' is no double",
    "SELECT x FROM alpha WHERE n = 'a'": "'a' is no bigint",
    "SELECT nullif(n, 'a') FROM alpha": "'a' is no bigint",
    "SELECT x FROM alpha WHERE time = 5": "bigint cannot become timestamp",
    # times that no calendar has
    "SELECT x FROM alpha WHERE time > TIMESTAMP '2026-02-30 00:00:00'": "is no timestamp that exists: correct it",
    "SELECT x FROM alpha WHERE x > 0 AND time < TIMESTAMP '2026-01-01 25:00:00'": "is no timestamp",
    "SELECT y FROM (SELECT x AS y FROM alpha WHERE time > TIMESTAMP '2026-02-30' UNION ALL SELECT x FROM beta) u": "is no",
    f"SELECT max(time) {WINDOW} HAVING max(time) > TIMESTAMP 'abc'": "write YYYY-MM-DD HH:MM:SS",
    "SELECT date_diff('day', 'abc', time) FROM alpha": "write YYYY-MM-DD HH:MM:SS",
    "SELECT time IN ('2026-02-30') FROM alpha": "is no timestamp that exists",
    "SELECT time + INTERVAL '300000' YEAR FROM alpha": "lies outside of what a timestamp can hold",
    "SELECT time + 4 * INTERVAL '90000' YEAR FROM alpha": "lies outside of what a timestamp can hold",
    "SELECT time + 99999999999 * INTERVAL '1' DAY FROM alpha": "is too large",
    "SELECT to_timestamp(9e18) FROM alpha": "is too large for bigint",
    "SELECT strptime('abc', '%Y') FROM alpha": "does not have the format",
    "SELECT strptime(city, '%Q') FROM alpha": "the format '%Q'",
    # casts
    "SELECT CAST('abc' AS BIGINT) FROM alpha": "'abc' is no bigint: correct it",
    "SELECT CAST(1e300 AS BIGINT) FROM alpha": "1e+300 is too large for bigint",
    "SELECT CAST(5 AS TIMESTAMP) FROM alpha": "bigint cannot become timestamp",
    "SELECT CAST(time AS BIGINT) FROM alpha": "timestamp cannot become bigint",
    f"SELECT sum(n) FROM alpha GROUP BY CAST('a' AS BIGINT), {WINDOW[20:]}": "'a' is no bigint",
    "SELECT CAST('1,2' AS BIGINT[])[1] FROM alpha": "is no bigint[]",
    "SELECT CASE WHEN x > 0 THEN CAST('a' AS BIGINT) END FROM alpha": "'a' is no bigint",
    "SELECT x FROM alpha WHERE x > 0 AND 'maybe'": "'maybe' is no boolean",
    "SELECT CASE WHEN 'a' THEN 1 END FROM alpha": "'a' is no boolean",
    # arithmetic, texts, paths
    "SELECT n % 0 FROM alpha": "is divided by 0",
    "SELECT n % (1 - 1) FROM alpha": "is divided by 0",
    "SELECT 9223372036854775807 + 1 FROM alpha": "is too large",
    "SELECT abs(-9223372036854775807 - 1) FROM alpha": "is too large",
    "SELECT substring(city, 9000000000) FROM alpha": "substring begins or ends further away",
    "SELECT substring(city, 1, 9000000000) FROM alpha": "substring begins or ends further away",
    "SELECT json_extract_string(city, '$[') FROM alpha": "a path is written",
    "SELECT city ->> '$.' FROM alpha": "a path is written",
}
TAKEN = [
    "SELECT x FROM alpha WHERE n IN (1, 2.5)",
    "SELECT x FROM alpha WHERE time IN ('2026-01-01')",
    "SELECT x FROM alpha WHERE n = '5'",
    "SELECT x FROM alpha WHERE city = ANY(ARRAY['ash', 'birch'])",
    "SELECT n / 0, x % 0, nullif(n, 0) FROM alpha",
    "SELECT TRY_CAST('a' AS BIGINT) FROM alpha",
    "SELECT TRY_CAST(city AS BIGINT), city || 5 FROM alpha",
    "SELECT n * 9223372036854775807 % 7 FROM alpha WHERE n = 0",
    "SELECT pow(x, 400), ln(0), sqrt(-1) FROM alpha",
    "SELECT time + n * INTERVAL '1' MONTH FROM alpha",
    "SELECT string_split(city, ',')[9000000000], split_part(city, ',', 9) FROM alpha",
    "SELECT x FROM alpha WHERE time > TIMESTAMP '2024-02-29 12:00:00' AND city LIKE 'a%'",
    f"SELECT sum(n) {WINDOW} HAVING sum(n) IN (1, 2) AND max(time) > TIMESTAMP '1970-01-01'",
]
"""Not every odd constant is wrong."""


def test_what_no_row_can_save_is_refused_in_our_own_words(local) -> None:
    answers = local.service.register(local.ann, [(text, "") for text in (*REFUSED, *TAKEN)])
    for (text, words), answer in zip(REFUSED.items(), answers, strict=False):
        assert isinstance(answer, QueryRefused), text
        assert words in str(answer), (text, str(answer))
        assert not FOREIGN.search(str(answer)), str(answer)
        assert answer.line >= 1
    taken = answers[len(REFUSED) :]
    assert all(isinstance(answer, Query) for answer in taken), taken
    local.feed(rows_of(np.random.default_rng(5), 200))
    states = [local.service.get_query(local.ann, query.id) for query in taken]
    assert [query.why for query in states] == [""] * len(TAKEN)


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("TIMESTAMP '2026-02-28'", "TIMESTAMP '2026-02-30'", "is no timestamp that exists"),
        ("CAST('12' AS BIGINT) > n", "CAST('twelve' AS BIGINT) > n", "'twelve' is no bigint"),
        ("n % 2 = 1", "n % 0 = 1", "is divided by 0"),
        ("n = '5'", "n = 'five'", "'five' is no bigint"),
        ("n IN ('5', '6')", "n IN ('5', 'six')", "'six' is no bigint"),
        ("9223372036854775806 + 1 > n", "9223372036854775807 + 1 > n", "is too large"),
        ("substring(city, 1) = 'a'", "substring(city, 9000000000) = 'a'", "substring begins"),
        ("'true'", "'truth'", "'truth' is no boolean"),
    ],
)
def test_a_remembered_text_is_checked_with_its_new_constants(good, bad, words) -> None:
    for part, text in (
        ("{}", "SELECT x FROM alpha WHERE {}"),
        ("{}", "SELECT x FROM alpha WHERE x > 1 OR {}"),
    ):
        one, other = (text.format(part.format(c if "TIME" not in c else f"time > {c}")) for c in (good, bad))
        preparer = Preparer()
        preparer.prepare(one, SOURCES)
        with pytest.raises(QueryRefused, match=words) as remembered:
            preparer.prepare(other, SOURCES)
        with pytest.raises(QueryRefused, match=words) as fresh:
            Preparer().prepare(other, SOURCES)
        assert str(remembered.value) == str(fresh.value)
        assert preparer.remembered(one, SOURCES) == preparer.prepare(one, SOURCES)
        assert preparer.remembered(other, SOURCES) is None


def test_bulk_refuses_only_the_ones_that_are_wrong(local) -> None:
    days = [f"SELECT x FROM alpha WHERE time > TIMESTAMP '2026-02-{day:02}'" for day in range(20, 32)]
    answers = local.service.register(local.ann, [(text, "") for text in days])
    assert [isinstance(answer, Query) for answer in answers] == [True] * 9 + [False] * 3


CONSTANTS = st.one_of(
    st.integers(-3, 3).map(str),
    st.sampled_from(
        ["9223372036854775807", "4294967296", "1e308", "0.5", "''", "'a'", "'1'", "'1e400'", "'true'", "NULL"]
    ),
    st.sampled_from(
        ["'2026-02-28'", "'2026-02-30'", "'24:00'", "'{\"a\": [1]}'", "'$.a[0]'", "'['", "'%Y'", "'%'"]
    ),
    st.sampled_from(
        ["TIMESTAMP '2026-02-29'", "TIMESTAMP '294000-01-01'", "INTERVAL '999999' DAY", "INTERVAL '1' YEAR"]
    ),
    st.sampled_from(["CAST('x' AS DOUBLE)", "CAST(0.4 AS BOOLEAN)", "ARRAY[1, 2]", "true"]),
)
FORMS = st.sampled_from([
    "x = {}", "n IN ({}, {})", "city = {}", "city IN ({}, {})", "time = {}", "time > {}", "n BETWEEN {} AND {}", "{} = {}",
    "n % {} = {}", "n + {} > {}", "n * {} = 0", "{} - {} = n", "time + {} > time", "time - {} > {}", "{} AND x > 1", "NOT {}",
    "CASE n WHEN {} THEN {} ELSE {} END = 1", "CASE WHEN {} THEN x > 0 ELSE {} END", "coalesce(x, {}) = {}", "nullif(n, {}) = {}",
    "nullif(city, {}) = {}", "greatest(n, {}) = {}", "CAST({} AS BIGINT) = n", "CAST({} AS TIMESTAMP) > time", "CAST({} AS BOOLEAN)",
    "CAST({} AS BIGINT[])[{}] = n", "TRY_CAST({} AS DOUBLE) = {}", "substring(city, {}, {}) = 'a'", "split_part(city, {}, {}) = 'a'",
    "string_split(city, {})[{}] = 'a'", "city LIKE {}", "city || {} = 'a'", "starts_with(city, {})", "regexp_matches(city, {})",
    "regexp_extract(city, {}) = {}", "json_extract_string(city, {}) = {}", "(city ->> {}) = 'a'", "json_valid({})",
    "json_array_length({}, {}) = 1", "strptime(city, {}) > time OR true", "try_strptime({}, {}) > time", "strftime(time, {}) = {}",
    "date_trunc('day', {}) < time", "date_diff('day', {}, time) > {}", "to_timestamp({}) > time", "epoch_ms({}) > n", "epoch({}) > x",
    "pow(x, {}) > {}", "round({}, 2) > x", "abs({}) > x", "ln({}) > x", "list_contains(ARRAY[{}, {}], n)", "n = ANY(ARRAY[{}, {}])",
])  # fmt: skip
CONTEXTS = st.sampled_from([
    "SELECT x FROM alpha WHERE {}",
    "SELECT CASE WHEN {} THEN 1 END AS y FROM alpha",
    "SELECT y FROM (SELECT x AS y FROM alpha WHERE {} UNION ALL SELECT x FROM beta) u",
    "SELECT count(*) FROM alpha WHERE {} GROUP BY TUMBLE(time, INTERVAL '1 second')",
])  # fmt: skip


@st.composite
def texts(draw):
    form = draw(FORMS)
    constants = [draw(CONSTANTS) for _ in range(form.count("{}"))]
    return draw(CONTEXTS).format(form.format(*constants))


ROW_FAULTS = ("strptime(city", "n * 9223372036854775807", "n + 9223372036854775807")
"""Forms that fail for some rows and not for others: that is no constant's fault."""


@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(st.lists(texts(), min_size=30, max_size=30))
def test_no_accepted_query_fails_because_of_a_constant(tmp_path_factory, drawn) -> None:
    """Rows with ordinary values: small numbers, words, times of our days. A message names the text, so nothing is shrunk."""
    local = Local(tmp_path_factory.mktemp("constants"), servers=1)
    try:
        answers = local.service.register(local.ann, [(text, "") for text in drawn])
        for answer in answers:
            assert isinstance(answer, (Query, QueryRefused))
            assert isinstance(answer, Query) or not FOREIGN.search(str(answer)), str(answer)
        local.feed(rows_of(np.random.default_rng(5), 40))
        for text, answer in zip(drawn, answers, strict=True):
            if isinstance(answer, Query) and not any(form in text for form in ROW_FAULTS):
                stopped = local.service.get_query(local.ann, answer.id)
                assert stopped.state == "active", (text, stopped.why)
    finally:
        local.service.close()


@given(
    st.from_regex(
        r"[0-2][0-9]{3}-[01][0-9]-[0-3][0-9]([ T][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,6})?)?",
        fullmatch=True,
    )
)
def test_what_is_clear_without_a_trial_passes_one(text) -> None:
    part = Part("CAST(c.p0 AS timestamp)", (), (), None, ROWS)
    template = PREPARER.prepare("SELECT x FROM alpha WHERE city = 'a'", SOURCES).template
    if plainly_right(part, [text]):
        assert not why_never(template, part, [text], ENGINE)
