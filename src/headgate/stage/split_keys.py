"""Split keys: the rows of one key on several channels, its answer merged from their pieces.

A task sends the state of its pieces (one key each) to the driver with its report, which merges and emits them. That
is a few rows per batch: only keys too hot for one channel are split.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.operators.base import BoundOperator
from headgate.state.layout import StateLayout
from headgate.state.section import Extract, decode, encode, join_extracts, take


def packed(piece: Extract, layout: StateLayout) -> list[Any]:
    """A piece's state as JSON-native values: its rows and its bytes."""
    raw = b"".join(part.tobytes() for part in encode(piece, layout))
    return [len(piece), base64.b64encode(raw).decode()]


def merged_output(answers: list[dict[str, Any]], operator: BoundOperator) -> pa.RecordBatch | None:
    """The output of the split keys that this batch touched on any channel."""
    found: list[Extract] = []
    touched: set[int] = set()
    for answer in answers:
        rows = dict(zip(answer["touched"]["bin"], answer["touched"]["rows"], strict=True))
        for bin, (size, text) in answer["pieces"].items():
            raw = np.frombuffer(base64.b64decode(text), np.uint8)
            piece = decode(raw, size, operator.layout)
            found.append(piece)
            if rows.get(int(bin)):
                touched |= set(piece.keys.hashes.tolist())
    if not touched:
        return None
    state = operator.merge(join_extracts(found))
    return operator.key_output(take(state, np.flatnonzero(np.isin(state.keys.hashes, list(touched)))))
