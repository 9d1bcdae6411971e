"""LIKE in time that no pattern can blow up.

The engine's own LIKE tries every way to divide a text among the `%` of a pattern, which takes length ** number steps. Here
each part between two `%` is looked for once, from the left: the first place where it fits is as good as any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa

NAME = "hg_like"
"""The function under which engines know it."""
MOST_STEPS = 65_536
"""The engine's own LIKE is used where it needs no more steps than this for a row."""
_PLAIN = re.compile(r"[a-z]\w*\.\w+")


def written(text: str, pattern: str, operator: str) -> str:
    """An expression for LIKE or ILIKE over two expressions. It is the engine's own where that is cheap."""
    fold = "lower" if operator == "ILIKE" else ""
    ours = f"{NAME}({fold}({text}), {fold}({pattern}))"
    if not (
        _PLAIN.fullmatch(text) and _PLAIN.fullmatch(pattern)
    ):  # repeating long expressions would make longer ones
        return ours
    inner = f"rtrim({pattern}, '%')"
    wild = (
        f"strlen({text}) * strlen({pattern}) > {MOST_STEPS}"
        f" OR length({inner}) - length(replace({inner}, '%', '')) > 1"
    )
    return f"(CASE WHEN {wild} THEN {ours} ELSE ({text} {operator} {pattern}) END)"


def like(text: str, pattern: str) -> bool:
    """Whether a text is like a pattern, in which `%` stands for any text and `_` for any character.

    >>> like("headgate", "h%g_t_"), like("headgate", "%gates")
    (True, False)
    """
    first, *middle, last = _parts(pattern)
    if not middle and last is first:
        return first.fits(text, 0) and len(text) == first.size
    if len(text) < first.size + last.size or not first.fits(text, 0):
        return False
    at, end = first.size, len(text) - last.size
    if not last.fits(text, end):
        return False
    for part in middle:
        found = part.find(text, at, end)
        if found < 0:
            return False
        at = found + part.size
    return True


class _Part:
    """What is between two `%`."""

    def __init__(self, text: str) -> None:
        self._text, self.size = text, len(text)
        dots = "".join("." if letter == "_" else re.escape(letter) for letter in text)
        self._expression = re.compile(dots, re.DOTALL) if "_" in text else None

    def fits(self, text: str, at: int) -> bool:
        """Whether it is in the text at a place."""
        if self._expression is None:
            return text.startswith(self._text, at)
        return self._expression.match(text, at) is not None

    def find(self, text: str, begin: int, end: int) -> int:
        """The first place where it is in a part of the text; -1 if there is none."""
        if self._expression is None:
            return text.find(self._text, begin, end)
        found = self._expression.search(text, begin, end)
        return found.start() if found else -1


@lru_cache(1_000)
def _parts(pattern: str) -> tuple[_Part, ...]:
    parts = tuple(_Part(part) for part in pattern.split("%"))
    return parts if len(parts) > 1 else (parts[0], parts[0])


def like_arrays(stopped: Callable[[], bool]) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """The function over arrays. It raises when `stopped` says so: an engine does not interrupt functions."""

    def of(texts: pa.Array, patterns: pa.Array) -> pa.Array:
        answers = list[bool | None]()
        for text, pattern in zip(texts.to_pylist(), patterns.to_pylist(), strict=True):
            if stopped():
                raise RuntimeError("LIKE was interrupted")
            answers.append(None if text is None or pattern is None else like(text, pattern))
        return pa.array(answers, pa.bool_())

    return of
