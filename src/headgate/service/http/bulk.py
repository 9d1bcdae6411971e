"""Bodies that list many things: {"events": [{...}, {...}]}.

They are read away from the event loop, an object at a time, so that other requests are answered meanwhile: Python
lets other threads run between two objects, but never inside of one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from headgate.errors import ConfigError

WINDOW = 1 << 20
"""How much text is looked at in one step, and so how long one object may be."""
_GAP = re.compile(r"[ \t\r\n]*")
_decode = json.JSONDecoder().raw_decode


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
    for one in _objects(text, head.end(), name):
        if len(objects) == most:
            raise ConfigError(f"{name}: a request may have at most {most}: send them in parts")
        objects.append(one)
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


def _objects(text: str, begin: int, name: str) -> Iterator[dict[str, Any]]:
    """The objects of a list that begins here and ends with the text."""
    rest, number = _Rest(text, begin), 0
    after = "]" if rest.next() == "]" else ","
    while after == ",":
        if rest.next() != "{":
            raise ConfigError(f"{name}.{number} is not an object, or the body was cut short")
        try:
            yield rest.take_object()
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{name}.{number} cannot be read: {error}") from error
        number += 1
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
