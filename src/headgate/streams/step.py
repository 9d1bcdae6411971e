"""What a step of a direct stream is: rows in, rows out, columnar, without state."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa


class BoundStep(ABC):
    """A step whose input columns are known. It is pickled and runs in map tasks."""

    schema: pa.Schema
    """The columns after the step."""
    repeatable: bool = False
    """Whether the same rows always give the same rows, which nobody can promise for a function of the user."""

    @abstractmethod
    def apply(self, rows: pa.Table) -> pa.Table:
        """The rows after the step, in order, with exactly the columns of `schema` or, if columns were
        left out before it, those of them that can still be computed.
        """

    def needed(self, columns: frozenset[str]) -> frozenset[str] | None:
        """The columns before the step that are enough to compute these columns after it; None for all."""
        return None


class Step(ABC):
    """A step as a user writes it."""

    @abstractmethod
    def bind(self, schema: pa.Schema) -> BoundStep:
        """Check the step against the columns before it."""
