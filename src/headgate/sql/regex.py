"""Regular expressions in time that no pattern can blow up.

Patterns are RE2's, which never go back in a text. A pattern is a constant of a query, so it is data here; the engine would
compile it again for every row. These functions compile each pattern once for a vector of rows. The steps for a row are at
most its bytes times the pattern's *weight*, which is bounded, and long work is divided so that it can be interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MATCHES, EXTRACT, REPLACE = "hg_regex_matches", "hg_regex_extract", "hg_regex_replace"
NAMES = (MATCHES, EXTRACT, REPLACE)
"""The functions under which engines know them."""
MOST_CHARACTERS, MOST_WEIGHT, MOST_REPLACEMENT = 500, 3_000, 100
MOST_TEXT = 100_000
"""The longest text that a replacement may make, in bytes."""
STEPS = 1 << 27
"""How many steps are taken before it is asked whether to stop."""
_ATOM = re.compile(
    r"""(?P<property>\\[pP](?:\{\^?\w+\}|\w))
      | (?P<literal>\\Q.*?(?:\\E|\Z))
      | (?P<escape>\\(?:x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|.))
      | (?P<class>\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\])
      | (?P<flags>\(\?[imsU]*(?:-[imsU]+)?[):])
      | (?P<open>\((?:\?P?<\w+>)?)
      | (?P<close>\))
      | (?P<count>\{(?P<low>\d+)(?P<more>,(?P<high>\d*))?\})
      | (?P<repeat>[*+?])
      | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_REPLACEMENT = re.compile(r"(?:[^\\]|\\[0-9\\])*", re.DOTALL)


@lru_cache(1_000)
def weight(pattern: str) -> int:
    """About how many instructions a pattern is compiled to.

    >>> weight("abc"), weight("(ab){10}") > 20, weight("(a{30}){30}") > 900
    (3, True, True)
    """
    sums, last = [0], [0]
    for atom in _ATOM.finditer(pattern):
        kind = atom.lastgroup
        if kind == "open" or (kind == "flags" and atom[0].endswith(":")):
            sums.append(0)
            last.append(0)
            continue
        if kind == "close" and len(sums) > 1:
            size = sums.pop() + 2
            last.pop()
        elif atom["count"]:
            times = max(int(atom["high"] or 0), int(atom["low"]) + (1 if atom["more"] else 0), 1)
            size, sums[-1] = last[-1] * times, sums[-1] - last[-1]
        elif kind == "repeat":
            size, sums[-1] = last[-1] + 1, sums[-1] - last[-1]
        elif kind == "property":
            size = 500
        elif kind == "class":
            size = 4 + 2 * len(atom[0]) + 500 * len(re.findall(r"\\[pP]", atom[0]))
        elif kind == "literal":
            size = len(atom[0])
        else:
            size = 1 if kind == "other" and atom[0] != "." else 8
        sums[-1] += size
        last[-1] = size
    return sum(sums) * (2 if re.search(r"\(\?[a-zA-Z]*i", pattern) else 1)


def groups_in(pattern: str) -> int:
    """How many groups a pattern captures."""
    return sum(1 for atom in _ATOM.finditer(pattern) if atom.lastgroup == "open")


def fault_of_pattern(pattern: str) -> str:
    """What is wrong with a pattern; empty if nothing is."""
    if len(pattern) > MOST_CHARACTERS:
        return f"a pattern has at most {MOST_CHARACTERS} characters, and this one has {len(pattern)}"
    if weight(pattern) > MOST_WEIGHT:
        return "this pattern is too large: repeat less in it, or repeat something simpler"
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
        _named(pattern)
    except (pa.ArrowInvalid, re.error) as error:
        why = str(error).removeprefix("Invalid regular expression: ")
        return f"this is no regular expression (the syntax is RE2's): {why}"
    return ""


def fault_of_replacement(replacement: str, pattern: str) -> str:
    """What is wrong with the text that takes the place of what a pattern finds; empty if nothing is."""
    if len(replacement) > MOST_REPLACEMENT:
        return f"a replacement has at most {MOST_REPLACEMENT} characters, and this one has {len(replacement)}"
    if not _REPLACEMENT.fullmatch(replacement):
        return r"in a replacement, \ is followed by the number of a group or by \\"
    wanted = [int(n) for n in re.findall(r"\\([0-9\\])", replacement) if n != "\\"]
    if max(wanted, default=0) > groups_in(pattern):
        return f"the replacement asks for group {max(wanted)}, and the pattern has {groups_in(pattern)}"
    return ""


@lru_cache(1_000)
def _named(pattern: str) -> str:
    """A pattern whose groups are named g1, g2... and which is itself g0."""
    number = 0

    def name(atom: re.Match[str]) -> str:
        nonlocal number
        if atom.lastgroup != "open":
            return atom[0]
        number += 1
        return f"(?P<g{number}>"

    named = f"(?P<g0>{_ATOM.sub(name, pattern)})"
    pc.extract_regex(pa.array([""]), named)
    return named


def regex_arrays(stopped: Callable[[], bool]) -> dict[str, Callable[..., pa.Array]]:
    """The functions over arrays, by name. They raise when `stopped` says so: an engine does not interrupt functions."""

    def applied(
        texts: Any,
        patterns: Any,
        kind: pa.DataType,
        call: Callable[[pa.Array, str], pa.Array],
        growth: int = 1,
    ) -> pa.Array:
        """Apply a call to the texts of each pattern. It may make texts that are `growth` times as long."""
        texts, codes = _whole(texts), _whole(patterns).dictionary_encode()
        numbers = codes.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        known = codes.dictionary.to_pylist()
        order = None if len(known) == 1 and not codes.null_count else np.argsort(numbers, kind="stable")
        by_pattern = texts if order is None else texts.take(pa.array(order))
        ends = np.searchsorted(numbers if order is None else numbers[order], np.arange(len(known)), "right")
        begin = codes.null_count
        found = [pa.nulls(begin, kind)] if begin or not known else []
        for pattern, end in zip(known, ends.tolist(), strict=True):
            for part in _parts(by_pattern.slice(begin, end - begin), growth * weight(pattern)):
                if stopped():
                    raise RuntimeError("a regular expression was interrupted")
                made = call(part, pattern)
                found.append(made if made.type == kind else made.cast(kind))
            begin = end
        together = pa.concat_arrays(found)
        return together if order is None else together.take(pa.array(np.argsort(order)))

    def matches(texts: Any, patterns: Any, flags: Any) -> pa.Array:
        flag = _first(flags)
        return applied(
            texts, patterns, pa.bool_(), lambda part, p: pc.match_substring_regex(part, _flagged(p, flag))
        )

    def extract(texts: Any, patterns: Any, groups: Any, flags: Any) -> pa.Array:
        group, flag = _first(groups), _first(flags)

        def call(part: pa.Array, pattern: str) -> pa.Array:
            if group > groups_in(pattern):
                return pc.if_else(part.is_valid(), "", pa.nulls(len(part), pa.string()))
            found = pc.struct_field(pc.extract_regex(part, _flagged(_named(pattern), flag)), f"g{group}")
            return pc.if_else(part.is_valid(), pc.coalesce(found, ""), pa.scalar(None, pa.string()))

        return applied(texts, patterns, pa.string(), call)

    def replace(texts: Any, patterns: Any, replacements: Any, flags: Any) -> pa.Array:
        # A pattern may come with several replacements: one key for both.
        flag, texts_of = _first(flags), _whole(replacements)
        both = pc.binary_join_element_wise(_whole(patterns), texts_of, "\0")
        most = None if "g" in flag else 1

        def call(part: pa.Array, key: str) -> pa.Array:
            pattern, _, replacement = key.partition("\0")
            made = pc.replace_substring_regex(
                part, _flagged(pattern, flag), replacement, max_replacements=most
            )
            if (pc.max(pc.binary_length(made)).as_py() or 0) > MOST_TEXT:
                raise RuntimeError(f"regexp_replace made a text of more than {MOST_TEXT} bytes")
            return made

        return applied(texts, both, pa.string(), call, growth=MOST_REPLACEMENT)

    return {MATCHES: matches, EXTRACT: extract, REPLACE: replace}


def _whole(array: Any) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _first(array: Any) -> Any:
    return array[0].as_py() if len(array) else ""


def _flagged(pattern: str, flags: str) -> str:
    """A pattern with its options: i and s as RE2 has them, f for a match of the whole text."""
    inner = "".join(flag for flag in flags if flag in "is")
    pattern = f"(?{inner}:{pattern})" if inner else pattern
    return rf"\A(?:{pattern})\z" if "f" in flags else pattern


def _parts(texts: pa.Array, size: int) -> Iterator[pa.Array]:
    """The texts in parts whose bytes times the weight of their pattern are few steps, but for a single text."""
    most = max(STEPS // max(size, 1), 1)
    if len(texts) <= 1 or texts.nbytes <= most:
        yield texts
        return
    ends = np.cumsum(pc.binary_length(texts).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))
    begin = 0
    while begin < len(texts):
        before = int(ends[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(ends, before + most, side="right")), begin + 1)
        yield texts.slice(begin, end - begin)
        begin = end
