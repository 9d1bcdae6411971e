"""Brings a file that a task has written into the folder of a table, as it is.

On a disk a file is linked: it appears whole, and no byte is copied. On other stores it is copied, by the
store itself if both places are on the same one. It may be brought again, by another driver too.
"""

from __future__ import annotations

import errno
import re
from contextlib import suppress

from headgate.storage.manifest import Written
from headgate.storage.parquet_folder import verify
from headgate.storage.published import StagedBatch
from headgate.storage.store import Store

NO_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP)
"""Errors of a disk that cannot link the file: it is copied then."""


def adopted_name(batch: StagedBatch, file: Written) -> str:
    """The name of a file in the table's folder; no other stage, driver or attempt uses it."""
    stage = re.sub(r"[^0-9A-Za-z]", "-", batch.owner.stage)
    return f"part-{stage}-{file.name.rsplit('/', 1)[-1].removeprefix('part-')}"


def bring(batch: StagedBatch, file: Written, to: Store) -> str:
    """Bring one file of a batch, and return its name there. If the batch may have been published before, its bytes
    are compared with the commit.
    """
    name = adopted_name(batch, file)
    if to.size(name) != file.size:
        if batch.again:
            verify(batch.store, file.name, file)
        _bring(batch.store, file.name, to, name)
    elif batch.again:
        verify(to, name, file)
    return name


def _bring(staged: Store, source: str, to: Store, name: str) -> None:
    if to.disk is None:
        return staged.copy(source, to, name)
    with suppress(FileExistsError):
        if staged.disk is not None:
            try:
                return to.disk.link(staged.path(source), to.path(name))
            except OSError as error:
                if error.errno not in NO_LINK:
                    raise
        to.create(name, staged.read(source))
