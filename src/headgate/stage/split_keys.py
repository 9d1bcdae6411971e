"""Split keys: the rows of one key are on several channels, and its output is merged from their pieces.

A task sends the state of its pieces (one key each) to the driver with its answer; the driver merges
and emits them. That is a few rows per batch: only keys too hot for one channel are split.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from headgate.operators.base import BoundOperator
from headgate.stage.answer import Answer, Piece
from headgate.state.layout import StateLayout
from headgate.state.section import Extract, decode, encode, join_extracts, take


def packed(state: Extract, layout: StateLayout) -> Piece:
    """The state of a piece, encoded so that it can be sent to the driver."""
    return Piece(len(state), b"".join(part.tobytes() for part in encode(state, layout)))


def merged_output(answers: Iterable[Answer], operator: BoundOperator) -> pa.RecordBatch | None:
    """The output of the split keys that have rows in this batch on any channel; None if there are none."""
    states: list[Extract] = []
    touched: set[int] = set()
    for answer in answers:
        rows = {b.bin: b.rows for b in answer.touched}
        for b, piece in answer.pieces.items():
            state = decode(np.frombuffer(piece.data, np.uint8), piece.rows, operator.layout)
            states.append(state)
            if rows.get(b):
                touched |= set(state.keys.hashes.tolist())
    if not touched:
        return None
    merged = operator.merge(join_extracts(states))
    return operator.key_output(take(merged, np.flatnonzero(np.isin(merged.keys.hashes, list(touched)))))
