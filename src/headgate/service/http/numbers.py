"""Numbers in paths. What is no number is no path, and no number is too long to be read."""

from __future__ import annotations

from starlette.convertors import Convertor, register_url_convertor


class Number(Convertor[int]):
    """A whole number that a database can hold."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        """Read it."""
        return int(value)

    def to_string(self, value: int) -> str:
        """Write it."""
        return str(value)


register_url_convertor("number", Number())
