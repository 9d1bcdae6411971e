"""Regular expressions: what is refused, what a pattern may cost, and that they stop when they are told to."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headgate.errors import QueryFailed
from headgate.sql import regex
from headgate.sql.engine import Engine

PIECES = ["a", "b", ".", "\\d", "[a-c]", "[^a]", "(", ")", "(?:", "|", "*", "+", "?", "{2}", "{1,3}", "{2,}", "^", "$", "\\b", "(?i)",
          "[[:alpha:]]", "\\x{e4}", "\\Q.\\E", "(?P<n>", "\\.", "ä", "\\pL", "]", "[]a]"]  # fmt: skip


def patterns(seed, count):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(PIECES, rng.integers(1, 8))) for _ in range(count)]


def test_a_pattern_is_taken_or_refused_and_never_fails_later() -> None:
    """What is taken can be matched, extracted and replaced, and groups are counted as RE2 counts them."""
    functions = regex.regex_arrays(lambda: False)
    texts = pa.array(["", "abc", "aäb1", None, "a.b]"])
    taken = 0
    for pattern in patterns(1, 1_500):
        if regex.fault_of_pattern(pattern):
            continue
        taken += 1
        same = pa.array([pattern] * 5)
        flags, none = pa.array(["i"] * 5), pa.array([""] * 5)
        matched = functions[regex.MATCHES](texts, same, none).to_pylist()
        assert matched == pc.match_substring_regex(texts, pattern).to_pylist(), pattern
        whole = functions[regex.EXTRACT](texts, same, pa.array([0] * 5), none).to_pylist()
        assert [w is None for w in whole] == [t is None for t in texts.to_pylist()]
        assert all(m or not w for m, w in zip(matched, whole, strict=True)), pattern
        last = regex.groups_in(pattern)
        functions[regex.EXTRACT](texts, same, pa.array([last] * 5), flags)
        wanted = f"\\{min(last, 9)}"
        assert not regex.fault_of_replacement(wanted, pattern)
        functions[regex.REPLACE](texts, same, pa.array([wanted] * 5), pa.array(["g"] * 5))
    assert taken > 300


@pytest.mark.parametrize(
    "pattern", ["(a{50}){50}", "((a{20}){20}){20}", "\\pL{10}", "(?:[^\\pL]{2}){9}", "a" * 501, "(\\d{99}){99}", "((.{9}){9}){9}"]
)  # fmt: skip
def test_what_would_be_large_is_refused(pattern) -> None:
    assert regex.fault_of_pattern(pattern)


def test_the_weight_grows_with_what_is_repeated() -> None:
    assert regex.weight("a{100}") == 100
    assert regex.weight("(?:ab){3}") == 3 * 4
    assert regex.weight("(?i)a{100}") > regex.weight("a{100}")
    assert regex.weight("[a-z]{5}") == 5 * regex.weight("[a-z]")


def test_rows_keep_their_places_whatever_their_patterns() -> None:
    rng = np.random.default_rng(3)
    texts = [None if rng.random() < 0.1 else f"t{i}" for i in range(500)]
    found = [None if rng.random() < 0.1 else f"t{int(rng.integers(0, 10))}" for _ in range(500)]
    functions = regex.regex_arrays(lambda: False)
    got = functions[regex.MATCHES](pa.array(texts), pa.array(found), pa.array([""] * 500)).to_pylist()
    expected = [None if t is None or p is None else p in t for t, p in zip(texts, found, strict=True)]
    assert got == expected
    by = pa.array([f"<{p}>" if p else None for p in found])
    made = functions[regex.REPLACE](pa.array(texts), pa.array(found), by, pa.array([""] * 500)).to_pylist()
    assert made == [
        None if t is None or p is None else t.replace(p, f"<{p}>", 1)
        for t, p in zip(texts, found, strict=True)
    ]


def test_long_work_is_divided_and_stops_when_it_is_interrupted(monkeypatch) -> None:
    monkeypatch.setattr(regex, "STEPS", 5_000)
    asked = list[None]()

    def stopped():
        asked.append(None)
        return len(asked) > 3

    functions = regex.regex_arrays(stopped)
    texts = pa.array(["a" * 1_000] * 50)
    with pytest.raises(RuntimeError, match="interrupted"):
        functions[regex.MATCHES](texts, pa.array(["(a|b)*c"] * 50), pa.array([""] * 50))
    assert len(asked) == 4
    engine = Engine()
    engine.interrupt()
    assert engine.ask("SELECT hg_regex_matches('abc', 'b', '') AS a").to_pylist() == [{"a": True}]
    with pytest.raises(QueryFailed):
        engine.ask("SELECT hg_regex_matches('abc', '(', '')")
    engine.close()


def test_no_row_is_no_work() -> None:
    empty = pa.array([], pa.string())
    functions = regex.regex_arrays(lambda: False)
    assert functions[regex.MATCHES](empty, empty, empty).type == pa.bool_()
    assert functions[regex.EXTRACT](empty, empty, pa.array([], pa.int64()), empty).type == pa.string()
