"""When all rows of a source's batch have been processed: a notification (Faucet, section 3).

The rows of one batch of the source may be processed in several batches of the stage: a gate cuts it into
waves, and rows may wait in the backlog. A batch of the stage is a stamp; rows that wait are outstanding at
the stamp of the batch in which they came, and the right to send more is at the next one. The frontier of
these stamps says which batches may still have rows to process. A batch of the source is complete when the
frontier has passed the batch that took the last of its rows.

Law: each batch of the source is complete in exactly one commit, in the order of the source, and not before
its last row was processed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.errors import ConfigError, SinkFailed
from headgate.flow.backlog import Backlog
from headgate.flow.progress import Frontier
from headgate.storage.manifest import Delivery, Manifest


@dataclass(frozen=True)
class Completed:
    """All rows of batch `source_batch` of the source, and of those before it, have been processed, and what
    they changed is in the output up to batch `batch`.
    """

    source_batch: int
    batch: int


def frontier(batch: int, backlog: Backlog) -> Frontier:
    """The batches of a stage that may still have rows to process, after one of them.

    >>> from headgate.flow.backlog import BacklogEntry
    >>> left = frontier(7, Backlog((BacklogEntry("f", 0, 10, 80, batch=5),)))
    >>> [(n,) in left for n in (4, 5, 7, 8)]
    [False, True, True, True]
    """
    return Frontier.of([(batch + 1,), *((entry.batch,) for entry in backlog)])


def completed(
    last: Manifest | None, delivery: Delivery, batch: int, backlog: Backlog
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """The source's batches that are complete with this batch of the stage, and those that are not yet: each
    with the batch that took the last of its rows.
    """
    unfinished = () if last is None else last.unfinished
    if not delivery.extra and not delivery.rest:
        unfinished = (*unfinished, (delivery.number, batch))
    left = frontier(batch, backlog)
    passed = tuple(number for number, taken in unfinished if (taken,) not in left)
    return passed, tuple(one for one in unfinished if (one[1],) in left)


def tell_completed(hook: Callable[[Completed], None], manifest: Manifest) -> None:
    """Call the user's function. If it fails, the batch is published again, and it is called again."""
    for number in manifest.completed:
        try:
            hook(Completed(number, manifest.batch))
        except Exception as error:
            raise SinkFailed(
                f"on_complete raised {type(error).__name__} for batch {number} of the source: {error}. The batch is "
                "committed and published; the function is called again when the query is started again"
            ) from error


def checked_hook(hook: Callable[[Completed], None] | None) -> Callable[[Completed], None] | None:
    """The user's function; anything else is refused."""
    if hook is None or callable(hook):
        return hook
    raise ConfigError(f"on_complete={hook!r} must be a function of an hg.Completed")
