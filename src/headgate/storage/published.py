"""Which batches of a stage a table outside has, and whether the two belong together.

A table of a lakehouse or a database records the last batch of a stage in the same transaction as the
batch's rows: under the name of the stage (`name_of`), and under the checkpoint's address
(`address_of`), so that a checkpoint that was deleted and made anew is noticed. `begin` is asked
before the first batch, `pending` before each one. Pure: numbers in, a number or an error out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from headgate.errors import CheckpointMismatch
from headgate.storage.manifest import Written
from headgate.storage.parquet_folder import OUTPUT, Owner
from headgate.storage.store import Store


@dataclass(frozen=True)
class StagedBatch:
    """A committed batch that is to be written into a table."""

    number: int
    owner: Owner
    store: Store
    """Where its files are."""
    files: tuple[Written, ...]
    schema: pa.Schema
    rows: Callable[[], pa.Table]
    """Reads its rows, after they were compared with the commit if necessary."""
    again: bool
    """Whether it may have been published before, or another driver wrote it."""


def name_of(owner: Owner) -> str:
    """The name under which a table records the batches of a stage.

    >>> name_of(Owner("4be35ea6", "file:///ckpt")), name_of(Owner("4be35ea6", "file:///ckpt", "rows aside"))
    ('headgate/4be35ea6', 'headgate/4be35ea6/aside')
    """
    return f"headgate/{owner.stage}{_suffix(owner)}"


def address_of(owner: Owner) -> str:
    """The name under which a table records the batches of a checkpoint's address, whichever stage was there."""
    return f"headgate@{owner.checkpoint}{_suffix(owner)}"


def _suffix(owner: Owner) -> str:
    return "" if owner.what == OUTPUT else "/aside"


def begin(
    place: str,
    owner: Owner,
    *,
    recorded: int | None,
    earlier: int | None,
    committed: int | None,
    first: int | None,
) -> int | None:
    """Before a stage's first batch: the number to record for a stage that is new to the table, or None if
    the table knows it. Raise `CheckpointMismatch` if stage and table do not belong together.

    `recorded` is what the table has for the stage, `earlier` what it has for the checkpoint's address,
    `committed` the last batch that the stage has committed, `first` the first batch that the user wants there.
    """
    newest = -1 if committed is None else committed
    if recorded is not None:
        if recorded > newest:
            raise CheckpointMismatch(
                f"{place} has the batches of {owner.stage} up to {recorded}, and its checkpoint {owner.checkpoint} has "
                f"{_upto(committed)}: the checkpoint is older than the table. Restore the checkpoint that belongs to it, or "
                "start a new query with a table of its own"
            )
        if recorded < newest - 1:
            raise _lacks(place, owner, f"batches up to {recorded}" if recorded >= 0 else "no batch", newest)
        return None
    if earlier is not None and earlier >= 0 and first is None:
        raise CheckpointMismatch(
            f"{place} has batches up to {earlier} of an earlier query with the checkpoint {owner.checkpoint}, which was deleted or "
            "replaced: its rows would be written a second time. Restore that checkpoint, or name another table; to write "
            f"into this table all the same, use first_batch={newest + 1}"
        )
    if newest >= 0 and first not in (newest, newest + 1):
        raise _lacks(place, owner, "no batch", newest)
    return (newest + 1 if first is None else min(first, newest + 1)) - 1


def pending(place: str, owner: Owner, batch: int, recorded: int | None) -> bool:
    """Whether a batch is still to be written. Raise `CheckpointMismatch` if batches before it are missing."""
    if recorded is None:
        raise CheckpointMismatch(
            f"{place} does not know the stage {owner.stage} any more: it was removed or replaced while the query ran. Restore it and "
            f"start the query again; to begin a new table, use first_batch={batch}"
        )
    if recorded < batch - 1:
        raise _lacks(place, owner, f"batches up to {recorded}" if recorded >= 0 else "no batch", batch)
    return recorded < batch


def _lacks(place: str, owner: Owner, has: str, newest: int) -> CheckpointMismatch:
    return CheckpointMismatch(
        f"{place} has {has} of {owner.stage}, though {owner.checkpoint} has committed up to batch {newest}: the output lies elsewhere, "
        f"or was lost. Name the table that it had, or restore it. To begin a new table with the next batch, use first_batch={newest + 1}"
    )


def _upto(committed: int | None) -> str:
    return "committed none" if committed is None else f"committed up to batch {committed}"
