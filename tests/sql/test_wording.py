# ruff: noqa: E501 (queries)
"""What a refusal says: the user's own words, the place, and what to write instead."""

import random
import re

import pytest
from sqlglot import exp
from tests.sql.test_prepare import REFUSED, TAKEN, mutated
from tests.sql.world import KINDS, PREPARER

from headgate.errors import QueryRefused
from headgate.sql import functions
from headgate.sql.expressions import AGGREGATES
from headgate.sql.parse import CLAUSES
from headgate.sql.wording import KEYWORDS, in_users_words, quoted

KINDS_OF_NODE = [
    kind for kind in vars(exp).values() if isinstance(kind, type) and issubclass(kind, exp.Expression)
]
CLASSES = {kind.__name__ for kind in KINDS_OF_NODE}
CLASS_WORDS = {name.upper() for name in CLASSES} | {kind.key.upper() for kind in KINDS_OF_NODE}
NORMALISED = {name for kind in exp.ALL_FUNCTIONS for name in kind.sql_names()}
OURS = {
    word.upper()
    for words in (KEYWORDS, CLAUSES.values(), functions.names(), AGGREGATES, functions.UNITS)
    for text in words
    for word in text.split()
}
OURS |= {"TUMBLE", "HOP", "TIME", "EXCEPT", "REPLACE", "OVER", "SIMILAR", "TO", "BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN", "RE2", "SQL", "NUL", "A", "JSON", "TRY_CAST"}  # fmt: skip
TRACES = (
    "sqlglot",
    "<class",
    "Expecting",
    "Required argument",
    "Unexpected token",
    "hg_",
    "Traceback",
    "Binder Error",
    "r0.",
    "c.p0",
)


def foreign_words(message, text):
    """The words of a message that are the parser's, and neither the text's nor ours."""
    known = OURS | set(re.findall(r"\w+", text.upper()))
    words = re.findall(r"\w+", message)
    loud = {
        w
        for w in words
        if w.isupper() and len(w) > 1 and (w in CLASS_WORDS or w in NORMALISED) and w not in known
    }
    camel = {
        w
        for w in words
        if w in CLASSES and sum(letter.isupper() for letter in w) > 1 and w.upper() not in known
    }
    snake = {w for w in words if "_" in w and w.upper() in NORMALISED and w.upper() not in known}
    return loud | camel | snake | {trace for trace in TRACES if trace in message and trace not in text}


def refusal(text):
    with pytest.raises(QueryRefused) as caught:
        PREPARER.prepare(text, KINDS)
    return caught.value


@pytest.mark.parametrize(("text", "message", "column"), [
    ("SELECT city * 2 FROM alpha", "* does not take (varchar, bigint)", 8),
    ("SELECT x FROM alpha WHERE city LIKE 1", "LIKE does not take (bigint)", 27),
    ("SELECT x, upper(string_split(city, ',')) FROM alpha", "upper does not take (a list)", 11),
    ("SELECT x FROM alpha WHERE n = 1 AND city < 2", "varchar and bigint cannot be compared", 27),
    ("SELECT CASE WHEN x > 1 THEN city ELSE n END FROM alpha", "CASE cannot mix", 18),
    ("SELECT x FROM alpha WHERE n BETWEEN 1 AND time", "BETWEEN cannot mix", 27),
    ("SELECT n, greatest(x, time) FROM alpha", "cannot be values of one expression", 11),
    ("SELECT n, CASE WHEN INTERVAL '1 hour' THEN 1 ELSE 0 END FROM alpha", "interval cannot become boolean", 30),
    ("SELECT count(*) FROM alpha GROUP BY TUMBLE(time, INTERVAL '1 minute') HAVING city * 2 > 1", "", 78),
    ("SELECT count(*) FROM alpha GROUP BY TUMBLE(time, INTERVAL '1 minute') HAVING 'a' * 2 > 1", "* does not take", 78),
    ("SELECT x, INTERVAL '1 hour' FROM alpha", "an interval is no result", 20),
    ("SELECT DISTINCT x FROM alpha", "DISTINCT is not supported", 8),
    ("SELECT x FROM alpha FOR UPDATE", "FOR UPDATE is not supported", 25),
    ("SELECT x, 'a FROM alpha", "has no end", 11),
    ("SELECT x /* a FROM alpha", "has no end", 10),
    ("SELECT :p FROM alpha", "no parameters", 8),
    ("SELECT x, ? FROM alpha", "not supported", 11),
    ("SELECT x FROM alpha; SELECT n FROM alpha", "2 statements", 20),
    ("SELECT date_part(NULL, time) FROM alpha", "a text in quotes", 18),
])  # fmt: skip
def test_types_and_places_are_said_in_the_words_of_users(text, message, column) -> None:
    told = refusal(text)
    assert message in str(told)
    assert (told.line, told.column) == (1, column), str(told)
    assert not any(word in str(told) for word in ("explicit", "Error"))


@pytest.mark.parametrize(("engine", "ours"), [
    ("Out of Range Error: Overflow in multiplication of INT64 (4611686018427387904 * 3)!",
     "4611686018427387904 * 3 is too large for its type (multiplication)"),
    ("Conversion Error: Could not convert string 'a' to DOUBLE", "Could not convert string 'a' to DOUBLE"),
    ("it took 20 s in a batch", "it took 20 s in a batch"),
])  # fmt: skip
def test_what_an_engine_says_of_a_batch(engine, ours) -> None:
    assert in_users_words(engine) == ours


def test_the_check_finds_what_reviews_found() -> None:
    assert foreign_words(
        "there is no function 'timestamp_trunc'", "SELECT date_trunc('hour', time) FROM alpha"
    ) == {"timestamp_trunc"}
    assert foreign_words("ALIAS is not taken", "SELEC city") == {"ALIAS"}
    assert foreign_words(
        "Required argument 'this' missing for <class 'sqlglot.expressions.Where'>", "SELECT"
    ) >= {"sqlglot", "<class"}
    assert foreign_words("JSONExtractScalar is not supported", "SELECT 1") == {"JSONExtractScalar"}


@pytest.mark.parametrize("text", [t for texts in REFUSED.values() for t in texts], ids=lambda t: t[:40])
def test_refusals_are_in_the_users_words(text) -> None:
    assert not foreign_words(str(refusal(text)), text)


def wrong_words(seed, count):
    """Mutated texts whose refusals have words of the parser, and how many were refused."""
    rng, found, refused = random.Random(seed), list[str](), 0
    for _ in range(count):
        text = mutated(rng)
        try:
            PREPARER.prepare(text, KINDS)
        except QueryRefused as error:
            refused += 1
            if words := foreign_words(str(error), text):
                found.append(f"{words}: {error}: {text}")
    return found, refused


def test_hundreds_of_broken_texts_are_refused_in_the_users_words() -> None:
    found, refused = wrong_words(21, 400)
    assert not found, found[0]
    assert refused > 200


@pytest.mark.full
@pytest.mark.parametrize("seed", range(30, 34))
def test_thousands_of_broken_texts_are_refused_in_the_users_words(seed) -> None:
    found, _ = wrong_words(seed, 3_000)
    assert not found, found[0]


@pytest.mark.parametrize(
    ("text", "said", "place"),
    [
        ("SELEC city", "begins with SELECT, and this one with 'SELEC'; did you mean SELECT?", (1, 1)),
        ("SELEC city FROM alpha", "begins with SELECT, and this one with 'SELEC'; did you mean SELECT?", (1, 1)),
        ("SELECT city FORM alpha", "'alpha' cannot be read here; did you mean FROM?", (1, 18)),
        ("SELECT city FROM alpha WEHRE x > 1", "did you mean WHERE?", (1, 30)),
        ("SELECT city\nFROM alpha\nGRUOP BY city", "did you mean GROUP?", (3, 7)),
        ("SELECT Datetrunc('hour', time) FROM alpha", "there is no function 'Datetrunc'; did you mean date_trunc?", (1, 8)),
        ("SELECT date_trunc('hours ago', time) FROM alpha", "'hours ago' is no unit of time", (1, 19)),
        ("SELECT Timestamp_Diff(time, time) FROM alpha", "there is no function 'Timestamp_Diff'", (1, 8)),
        ("SELECT Now() FROM alpha", "Now() is not supported: its value depends on when", (1, 8)),
        ("SELECT city FROM alpah", "there is no source 'alpah'; the sources are alpha, beta, gamma; did you mean alpha?", (1, 18)),
        ("SELECT cty FROM alpha", "there is no column 'cty'; the columns are time, city, n, x; did you mean city?", (1, 8)),
        ("SELECT (city FROM alpha", "this ( has no )", (1, 8)),
        ("SELECT city FROM alpha WHERE", "the text ends too early, after 'WHERE'", (1, 24)),
        ("SELECT x // 2 FROM alpha", "this is not supported: x // 2", (1, 8)),
        ("SELECT city FROM alpha WHERE city ~ 'a('", "no regular expression (the syntax is RE2's): missing ): a(", (1, 37)),
        ("SELECT Lower(city, 1) FROM alpha", "Lower takes 1 argument, not 2", (1, 8)),
        ("DELETE FROM alpha", "begins with SELECT, and this one with 'DELETE'", (1, 1)),
        ("SELECT n ~ 'a' FROM alpha", "regexp_matches does not take (bigint, varchar, varchar)", (1, 8)),
    ],
)  # fmt: skip
def test_what_is_said_and_where(text, said, place) -> None:
    found = refusal(text)
    assert said in str(found)
    assert (found.line, found.column) == place


def test_a_part_is_quoted_as_it_was_written() -> None:
    from headgate.sql.limits import Limits
    from headgate.sql.parse import parsed

    text = "SELECT Coalesce( x ,  lower(city) ), [n, 2][1] FROM alpha"
    tree = parsed(text, Limits()).tree
    assert tree is not None
    assert quoted(tree.expressions[0], text) == "Coalesce( x , lower(city) )"
    assert all(PREPARER.prepare(t, KINDS) for t in TAKEN[:2])
