"""What the tasks of a batch leave behind, put together with what was committed before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.flow.backlog import Backlog
from headgate.routing.reshape import BinPart as Source
from headgate.routing.table import Table
from headgate.stage.flow_control import Flow
from headgate.state.index import FOREVER
from headgate.storage.manifest import Manifest, StateFile, live_files


def absorbed(
    last: Manifest | None, batch: int, table: Table, answers: list[dict[str, Any]], credit: int
) -> dict[str, Any]:
    """The state part of a manifest: the files that make up each bin once the tasks' files are added."""
    bases = dict(last.bases) if last else {}
    sizes = dict(last.state_bytes) if last else {}
    keys = dict(last.state_keys) if last else {}
    due = dict(last.due) if last else {}
    written = [StateFile(a["file"], batch, frozenset(a["bins"])) for a in answers if a["file"]]
    for answer in answers:
        for b in answer["bins"]:
            bases.setdefault(b, batch)
        bases.update(dict.fromkeys(answer["snapshots"], batch))
        touched = answer["touched"]
        sizes.update(zip(touched["bin"], touched["state_bytes"], strict=True))
        keys.update(zip(touched["bin"], touched["keys"], strict=True))
        due.update(zip(touched["bin"], touched["due"], strict=True))
    earned = sum(a["delta_bytes"] for a in answers)
    for gone in bases.keys() - set(table.bins):
        del bases[gone]
        sizes.pop(gone, None)
        keys.pop(gone, None)
        due.pop(gone, None)
    return {
        "files": live_files((*(last.files if last else ()), *written), bases),
        "bases": bases,
        "state_bytes": sizes,
        "state_keys": keys,
        "due": {b: time for b, time in due.items() if time < FOREVER},
        "credit": credit + earned,
        "earned": earned,
    }


def backlog_after(
    flow: Flow, changed: Mapping[int, tuple[Source, ...]], answers: list[dict[str, Any]]
) -> Backlog:
    """What waits after a batch. The rows of reshaped bins were all looked at: they are done, or wait under their new bins."""
    sources = {source.bin for found in changed.values() for source in found}
    taken = flow.backlog.of(sources) + tuple(w for a in answers for w in Backlog.from_json(a["taken"]))
    return flow.backlog.after(taken, (w for a in answers for w in Backlog.from_json(a["waiting"])))
