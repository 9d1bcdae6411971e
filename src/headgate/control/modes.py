"""What the loop may do without being asked."""

from __future__ import annotations

from difflib import get_close_matches
from enum import StrEnum

from headgate.errors import ConfigError


class Mode(StrEnum):
    """`observe` only updates the view; `advise` also proposes plans; `act` also changes the table.

    A request of the user (for a number of channels) is carried out in every mode.
    """

    observe = "observe"
    advise = "advise"
    act = "act"

    @classmethod
    def parse(cls, text: str | Mode) -> Mode:
        """The mode with this name."""
        try:
            return cls(text)
        except ValueError:
            known = [mode.value for mode in cls]
            close = get_close_matches(str(text).lower(), known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ConfigError(f"unknown mode {text!r}: the modes are {', '.join(known)}{hint}") from None
