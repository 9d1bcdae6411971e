"""Split keys: the rows of one key are on several channels, and its state is on the driver.

Each channel combines the rows that it gets (`stage.split_rows`) and sends the few partial rows with its answer.
The driver applies them to the key's state, in the order of the source where that matters, closes what is due,
and emits: it is one more channel, whose rows are combined already. So output, late rows and closing times are
those of a key on one channel. The state is kept under the bin of the key's first piece, its *lead*, and is
committed with the batch; the bins of the other pieces hold nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headgate.operators.arrival import CLOSED
from headgate.operators.channel_run import ChannelRun
from headgate.operators.combine import Combined
from headgate.routing.reshape import BinPart
from headgate.stage.answer import Answer, TouchedBin
from headgate.stage.bin_reader import BinReader
from headgate.stage.changed_state import changed_sections
from headgate.stage.routed_rows import HASH, ORDER
from headgate.stage.split_rows import receiver, split_schema
from headgate.stage.task import Task
from headgate.state.conform import conform
from headgate.state.index import FOREVER
from headgate.state.table import BinTable
from headgate.storage import state_file

Tables = dict[int, tuple[str, BinTable]]
"""The tables of leads that the driver has in memory, each with the state file that it stands for."""


@dataclass(frozen=True)
class Merged:
    """What the driver did for the split keys of a batch: rows to emit, and an answer that names the changed state."""

    output: list[pa.RecordBatch]
    answer: Answer


def merged(task: Task, answers: Iterable[Answer], tables: Tables) -> Merged | None:
    """Apply what the channels sent to the state of the split keys; None if there is nothing to do.

    `tables` are those of the batch before, and become those of this one. If the batch fails, forget them.
    """
    leads = [pins[0].bin for pins in task.table.splits.values()]
    for gone in tables.keys() - set(leads):
        del tables[gone]
    if not leads:
        return None
    made_of = _made_of(task)
    operator = receiver(task.operator)
    reader = BinReader(operator, task.state, task.state_store, {**task.reshaped, **made_of})

    def opened(b: int) -> BinTable:
        version, table = tables.get(b, ("", None))
        if table is None or b in made_of or version != task.state.heads.get(b, ""):
            table = BinTable.create(operator.layout)
            reader.read(b, table)
        return table

    run = ChannelRun(operator, opened, task.table.bins[-1] + 1, batch=task.batch)
    for rows in _in_order(task, operator, answers):
        hashes = rows.column(HASH).to_numpy()
        run.feed(rows, hashes, task.table.bin_of_hash(hashes))
    snapshots = sorted((task.snapshots | made_of.keys()) & set(leads))
    for b in snapshots:
        run.table(b)
    watermark = task.clock.watermark
    bounds = {b: time for b, time in task.state.due.items() if b in leads and b not in made_of}
    run.close(run.due(bounds, watermark), watermark)
    touched = run.finish()
    emptied = _emptied(task, made_of)
    if not run.tables and not emptied:
        return None
    sections = changed_sections(run, touched, snapshots)
    name, size = "", 0
    if sections:
        name = f"{task.batch:012d}-split-{task.run}.hgs"
        size = state_file.write(task.state_store, name, operator.layout, sections)
    changed = {section.bin for section in sections}
    for b, table in run.tables.items():
        tables[b] = (name if b in changed else task.state.heads.get(b, ""), table)
    answer = Answer(
        channel=0,
        executor="",
        came=0,
        rows=0,
        out_rows=sum(rows.num_rows for rows in run.output),
        busy_ms=0.0,
        idle_ms=0.0,
        read_ms=0.0,
        rebuilt_bins=0,
        state_file=name,
        changed=tuple(sorted(changed)),
        snapshots=(*snapshots, *emptied),  # of bins that hold nothing: their files are not needed any more
        state_bytes=size,
        delta_bytes=sum(change.nbytes for change in touched.values()),
        touched=tuple(
            TouchedBin(b, int(run.rows_of_bin[b]), table.state_bytes, table.rows, table.due)
            for b, table in sorted(run.tables.items())
        )
        + tuple(TouchedBin(b, 0, 0, 0, FOREVER) for b in emptied),
    )
    return Merged(run.output, answer)


def _made_of(task: Task) -> Mapping[int, tuple[BinPart, ...]]:
    """The leads that take state from other bins: those of keys whose pins have changed, and of keys of which
    several pieces have state, as in checkpoints of older versions.
    """
    made: dict[int, tuple[BinPart, ...]] = {}
    for key_hash, pins in task.table.splits.items():
        lead = pins[0].bin
        if lead in task.reshaped:
            made[lead] = task.reshaped[lead]
        elif any(pin.bin in task.state.heads and pin.bin not in task.reshaped for pin in pins[1:]):
            made[lead] = tuple(BinPart(pin.bin, frozenset([key_hash]), False) for pin in pins)
    return made


def _emptied(task: Task, made_of: Mapping[int, tuple[BinPart, ...]]) -> list[int]:
    """The bins of pieces that held something until now: of their key, or of another that had the bin before."""
    others = {pin.bin for pins in task.table.splits.values() for pin in pins[1:]}
    gave = {part.bin for parts in made_of.values() for part in parts}
    return sorted(others & task.state.bases.keys() & (gave | task.reshaped.keys()))


def _in_order(task: Task, operator: Combined, answers: Iterable[Answer]) -> Iterable[pa.RecordBatch]:
    """The rows that the channels sent: those that arrived first, and in the order of the source if it matters."""
    schema = split_schema(task.operator, task.rows)
    parts = [conform(part, schema) for a in answers if a.pieces for part in pa.ipc.open_stream(a.pieces)]
    if not parts:
        return
    rows = pa.concat_batches(parts)
    if operator.ordered:
        rows = rows.take(pa.array(np.argsort(rows.column(ORDER).to_numpy(), kind="stable")))
    if CLOSED not in schema.names:
        yield rows
        return
    closed = rows.column(CLOSED).to_numpy()
    for time in np.unique(closed):
        yield rows.filter(pa.array(closed == time))
