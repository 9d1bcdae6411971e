"""Reading the texts of queries, one at a time. Whoever does it holds no other lock, so no batch waits for a parser."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from headgate.errors import HeadgateError
from headgate.sql.prepare import Prepared, Preparer
from headgate.sql.source_schema import SourceSchema


class Preparing:
    """A preparer behind a lock of its own: it has one engine."""

    def __init__(self, preparer: Preparer) -> None:
        self.preparer = preparer
        self._lock = threading.Lock()

    def prepare(self, text: str, kinds: Mapping[str, SourceSchema]) -> Prepared:
        """Read a text, or raise QueryRefused. Texts of a known shape do not wait for others."""
        remembered = self.preparer.remembered(text, kinds)
        if remembered is not None:
            return remembered
        with self._lock:
            return self.preparer.prepare(text, kinds)

    def prepare_or_refuse(self, text: str, kinds: Mapping[str, SourceSchema]) -> Prepared | HeadgateError:
        """Read a text; a refusal is returned."""
        try:
            return self.prepare(text, kinds)
        except HeadgateError as error:
            return error
