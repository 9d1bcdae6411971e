"""What is missing between commas, brackets, AS and CASE is never guessed."""

import pytest
from tests.sql.world import KIND, NAMES

from headgate.errors import QueryRefused
from headgate.sql.prepare import Preparer

KINDS = dict.fromkeys(NAMES, KIND)


@pytest.fixture(scope="module")
def preparer():
    return Preparer()


@pytest.mark.parametrize(("text", "words", "column"), [
    ("SELECT substring(city, , 2) FROM alpha", "missing before this comma", 24),
    ("SELECT [1,,n][2] FROM alpha", "missing before this comma", 11),
    ("SELECT coalesce(,n) FROM alpha", "missing before this comma", 17),
    ("SELECT n FROM alpha WHERE n IN (1,,2)", "missing before this comma", 35),
    ("SELECT , n FROM alpha", "missing before this comma", 8),
    ("SELECT n,, x FROM alpha", "missing before this comma", 10),
    ("SELECT n, FROM alpha", "missing after this comma", 9),
    ("SELECT n FROM alpha,", "missing after this comma", 20),
    ("SELECT greatest(n, ) FROM alpha", "missing after this comma", 18),
    ("SELECT n AS , x FROM alpha", "a name is missing after this AS", 10),
    ("SELECT n AS FROM alpha", "a name is missing after this AS", 10),
    ("SELECT nullif(n, least(7, 0) AS)v FROM alpha", "a name is missing after this AS", 30),
    ("SELECT substring('abcdef', 1, 2 AS v FROM alpha", "this ( has no )", 17),
    ("SELECT CAST(n AS DOUBLE FROM alpha", "this ( has no )", 12),
    ("SELECT [1, n FROM alpha", "this [ has no ]", 8),
    ("SELECT n) FROM alpha", "this ) closes nothing", 9),
    ("SELECT (n] FROM alpha", "this ] closes nothing", 10),
    ("SELECT CASE WHEN n > 0 x ELSE 2 END FROM alpha", "a THEN is missing before this ELSE", 26),
    ("SELECT CASE n WHEN 1 x END FROM alpha", "a THEN is missing before this END", 24),
    ("SELECT CASE WHEN n > 0 WHEN n > 1 THEN 2 END FROM alpha", "a THEN is missing before this WHEN", 24),
    ("SELECT CASE WHEN n > 0 THEN 1 FROM alpha", "this CASE has no END", 8),
    ("SELECT count(*) FROM alpha GROUP BY n,, TUMBLE(time, INTERVAL '1 second')", "missing before this comma", 39),
])  # fmt: skip
def test_it_is_refused_where_it_is_missing(preparer, text, words, column) -> None:
    with pytest.raises(QueryRefused) as refused:
        preparer.prepare(text, KINDS)
    assert words in str(refused.value)
    assert (refused.value.line, refused.value.column) == (1, column)


@pytest.mark.parametrize("text", [
    "SELECT CASE WHEN n > 0 THEN CASE n WHEN 1 THEN 2 ELSE 3 END ELSE 4 END AS v FROM alpha",
    "SELECT [n, 1, 2][1] AS a, (n) AS b, coalesce(n, (1 + 2)) FROM alpha",
    "SELECT count(*), city FROM alpha GROUP BY city, TUMBLE(time, INTERVAL '1 second')",
    "SELECT count(*) FROM alpha GROUP BY LAST 10 ROWS",
    "SELECT ', ,' || city || '(((' FROM alpha WHERE city IN ('a', 'b,,')",
])  # fmt: skip
def test_what_is_whole_is_taken(preparer, text) -> None:
    preparer.prepare(text, KINDS)
