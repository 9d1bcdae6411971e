"""Texts that cost much to read, and values that no type holds: they are refused where they enter, and nobody waits."""

import threading

import numpy as np
import pytest
from tests.sql.world import KINDS, named, rows_of

from headgate.errors import QueryRefused
from headgate.sql.prepare import Preparer

DEEP = [
    "SELECT " + opening * levels + "x" + closing * levels + " FROM alpha"
    for opening, closing, levels in [
        ("ARRAY[", "]", 20),
        ("ROW(", ")", 29),
        ("DECIMAL(", ")", 40),
        ("VARCHAR((", "))", 40),
        ("ARRAY[1 END, ", "]", 25),
        ("CASE WHEN ARRAY[", "] THEN 1 END", 25),
        ("(", ")", 1_900),
    ]
]


@pytest.mark.parametrize("text", DEEP, ids=lambda text: text[7:25])
def test_deep_nesting_is_refused_before_it_is_parsed(text) -> None:
    with pytest.raises(QueryRefused) as refusal:
        Preparer().prepare(text[:4_000], KINDS)
    assert refusal.value.reason == "nesting"


def test_ordinary_nesting_is_taken() -> None:
    text = f"SELECT {'(' * 20}x + 1{')' * 20} FROM alpha WHERE {'abs(' * 9}CAST(x AS DOUBLE){')' * 9} > 1"
    assert Preparer().prepare(text, KINDS).sources == ("alpha",)


def test_batches_do_not_wait_for_a_text_that_is_being_read(local) -> None:
    reading, done = threading.Event(), threading.Event()
    preparer = local.service._preparing.preparer
    prepare = preparer.prepare

    def slow(text, kinds):
        reading.set()
        done.wait()
        return prepare(text, kinds)

    (early,) = local.add("SELECT x FROM alpha")
    preparer.prepare = slow
    tasks = [
        lambda: local.add("SELECT n FROM alpha"),
        lambda: local.service.explain(local.ann, "SELECT n FROM alpha"),
        lambda: local.service.explain_query(local.ann, early),
        lambda: local.service.resume(local.ann, early),
    ]
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    reading.wait()
    rows = rows_of(np.random.default_rng(1), 50)
    local.feed(rows)
    assert sum(local.answers(early).values()) == named(rows, 0).num_rows
    done.set()
    for thread in threads:
        thread.join()
    assert local.service.count_queries(local.ann) == 2


@pytest.mark.parametrize(
    "value", ["99999999999999999999", "9223372036854775808", "1" * 3_000, "1e999", "'a\0b'", "'\ud800'"]
)
def test_a_remembered_shape_takes_no_value_that_its_type_cannot_hold(local, value) -> None:
    kind = "city = 'a'" if "'" in value else "x > 1.5" if "e" in value else "n > 1"
    (good,) = local.add(f"SELECT x FROM alpha WHERE {kind}")
    (answer,) = local.service.register(
        local.ann, [(f"SELECT x FROM alpha WHERE {kind.rsplit(' ', 1)[0]} {value}", "")]
    )
    assert isinstance(answer, QueryRefused), answer
    assert answer.reason in ("number", "syntax")
    local.feed(rows_of(np.random.default_rng(1), 50))
    assert local.service.get_query(local.ann, good).state == "active"
    local.restart()
    local.feed(rows_of(np.random.default_rng(2), 50))


def test_the_largest_numbers_are_taken(local) -> None:
    local.add("SELECT x FROM alpha WHERE n > 1")
    (number,) = local.add("SELECT n FROM alpha WHERE n < 9223372036854775807 AND n > 00000000000000000000000")
    local.feed(rows_of(np.random.default_rng(1), 50))
    assert local.answers(number)
