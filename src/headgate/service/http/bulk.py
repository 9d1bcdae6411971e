"""Bodies that list many things: {"events": [{...}, {...}]}.

They are read away from the event loop, a piece at a time, so that other requests are answered meanwhile: Python lets
other threads run between two pieces, but never inside of one. A piece has many short objects, or one long one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from headgate.errors import ConfigError

WINDOW = 1 << 20
"""How much text is looked at in one step, and so how long one object may be."""
PIECE = 1 << 15
"""How much text of short objects is read in one step."""
_GAP = re.compile(r"[ \t\r\n]*")
_decode = json.JSONDecoder().raw_decode
_SEPARATORS = ("},{", "}, {")


def listed(body: bytes, name: str, most: int) -> list[dict[str, Any]]:
    """The objects in {name: [object, ...]}; ConfigError says which of them is wrong."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"the body is not UTF-8 (byte {error.start}): send JSON in UTF-8") from error
    head = re.match(rf'\s*\{{\s*"{name}"\s*:\s*\[', text)
    if head is None:
        return _short(text, name, most)
    objects = list[dict[str, Any]]()
    for some in _pieces(text, head.end(), name):
        objects += some
        if len(objects) > most:
            raise ConfigError(f"{name}: a request may have at most {most}: send them in parts")
    return objects


def _short(text: str, name: str, most: int) -> list[dict[str, Any]]:
    """The same of a short text in any other layout."""
    wanted = f'{{"{name}": [...]}}'
    if len(text) > WINDOW:
        raise ConfigError(f"a long body has to be {wanted}, and nothing else")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the body is not JSON: {error}; send {wanted}") from error
    objects = body.get(name) if isinstance(body, dict) else None
    if not isinstance(objects, list) or len(objects) > most:
        raise ConfigError(f"the body has to be {wanted}, with at most {most} of them")
    for number, one in enumerate(objects):
        if not isinstance(one, dict):
            raise ConfigError(f"{name}.{number} is not an object")
    return objects


def _pieces(text: str, begin: int, name: str) -> Iterator[list[dict[str, Any]]]:
    """The objects of a list that begins here and ends with the text, some at a time."""
    rest, number = _Rest(text, begin), 0
    after = "]" if rest.next() == "]" else ","
    while after == ",":
        if rest.next() != "{":
            raise ConfigError(f"{name}.{number} is not an object, or the body was cut short")
        try:
            some = rest.take_piece() or [rest.take_object()]
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{name}.{number} cannot be read: {error}") from error
        yield some
        number += len(some)
        after = rest.next()
        rest.skip()
    if number == 0:
        rest.skip()
    if after != "]":
        raise ConfigError(f"{name}.{number}: a comma or the end of the list is missing")
    closing = rest.next()
    rest.skip()
    if closing != "}" or rest.next():
        raise ConfigError(f'a long body has to be {{"{name}": [...]}}, and nothing else')


class _Rest:
    """What is left of a text, of which a window is looked at."""

    def __init__(self, text: str, begin: int) -> None:
        self._text, self._begin, self._at = text, begin, 0
        self._singly = 0
        """Up to here objects are read one by one, because a piece could not be read."""
        self._move()

    def _move(self) -> None:
        """Begin the window where we are."""
        self._begin, self._at = self._begin + self._at, 0
        self._window = self._text[self._begin : self._begin + WINDOW]

    def next(self) -> str:
        """The next character that is no space; nothing at the end."""
        while True:
            gap = _GAP.match(self._window, self._at)
            self._at = gap.end() if gap else self._at
            if self._at < len(self._window):
                return self._window[self._at]
            if not self._window:
                return ""
            self._move()

    def skip(self) -> None:
        """Go on behind that character."""
        self._at += 1

    def take_piece(self) -> list[dict[str, Any]]:
        """Several objects that begin here, up to one that is followed by another; none if that cannot be told quickly.

        What looks like the gap between two objects may be inside of one. Then the piece is no list of objects: a text
        or a bracket is open at its end.
        """
        if self._begin + self._at < self._singly:
            return []
        self._singly = self._begin + self._at + PIECE
        end = max(self._window.rfind(gap, self._at, self._at + PIECE) for gap in _SEPARATORS)
        found: list[dict[str, Any]] = []
        with suppress(ValueError, RecursionError):
            found = json.loads(f"[{self._window[self._at : end + 1]}]") if end > 0 else []
        if not all(type(one) is dict for one in found):
            return []
        if found:
            self._at, self._singly = end + 1, 0
        return found

    def take_object(self) -> dict[str, Any]:
        """The object that begins here."""
        try:
            one, self._at = _decode(self._window, self._at)
        except ValueError:
            self._move()  # perhaps only its beginning is in the window
            try:
                one, self._at = _decode(self._window, 0)
            except ValueError as error:
                if len(self._window) < WINDOW:
                    raise
                raise ValueError(f"{error}, or it has more than {WINDOW} characters") from error
        found: dict[str, Any] = one
        return found
