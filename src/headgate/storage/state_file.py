"""State files: what one channel writes in one batch. Each bin has a section with a delta or a snapshot.

If the batch removed keys of a bin, a section with these keys precedes the delta.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headgate.errors import CorruptState
from headgate.state.layout import StateLayout
from headgate.state.section import Extract, decode, encode
from headgate.storage import section_file
from headgate.storage.section_file import REMEDY, Contents
from headgate.storage.store import Store

_KIND = "state file"
DELTA, SNAPSHOT, GONE = range(3)


@dataclass(frozen=True)
class Piece:
    """One section to be written: the changed rows of a bin (delta), all its rows
    (snapshot), or its removed keys.
    """

    bin: int
    kind: int
    rows: Extract


def write(store: Store, name: str, layout: StateLayout, pieces: list[Piece]) -> int:
    """Write all pieces of one channel; return the number of bytes written."""
    sections = [((p.bin, p.kind, len(p.rows)), encode(p.rows, _layout(layout, p.kind))) for p in pieces]
    return section_file.write(store, name, {"layout": layout.fingerprint()}, sections)


def _layout(layout: StateLayout, kind: int) -> StateLayout:
    return layout.keys_only if kind == GONE else layout


def read(
    store: Store,
    name: str,
    layout: StateLayout,
    wanted: set[int] | None = None,
    known: dict[str, Contents] | None = None,
) -> Iterator[tuple[int, int, Extract]]:
    """(bin, kind, rows) of each wanted section, in file order. The checksum of each section is verified.
    `known` remembers the footers of files, for readers that come back for other bins.
    """
    where = store.path(name)
    file = None if known is None else known.get(name)
    if file is None:
        file = section_file.contents(store, name, _KIND)
        if file.head["layout"] != layout.fingerprint():
            raise CorruptState(
                f"state file {where} holds columns {file.head['layout']}, not {layout.fingerprint()}; {REMEDY}"
            )
        if known is not None:
            known[name] = file
    for section in file.sections:
        bin, kind, rows = section.labels
        if wanted is not None and bin not in wanted:
            continue
        (raw,) = section_file.read(store, name, [section], _KIND, whole=file.whole)
        try:
            piece = decode(np.frombuffer(raw, np.uint8), rows, _layout(layout, kind))
        except CorruptState as error:
            raise CorruptState(f"state file {where}, bin {bin}: {error}; {REMEDY}") from None
        yield bin, kind, piece
