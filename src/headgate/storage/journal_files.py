"""The files of a journal: reports and decisions, one line a batch.

On a disk a driver appends to a file of its own, a new one for each thousand batches. Where files cannot grow, a
file gets the lines of a few batches (`Outside.every`); until it is written, the commits in the log have them.
"""

from __future__ import annotations

import json
import re

from headgate.errors import CorruptState
from headgate.storage.commit_log import CommitLog
from headgate.storage.outside import OUTSIDE
from headgate.storage.store import Store

LINES_PER_JOURNAL = 1000
_FEW_LINES = re.compile(r"-(\d{12})-(\d{12})\.jsonl$")
"""The end of the name of a journal file that has the lines of a few batches: the first and the last."""


class JournalFiles:
    """The journal as its driver writes it."""

    def __init__(self, store: Store, every: int) -> None:
        self.store, self._every = store, every
        self._begun = False
        self._lines: list[tuple[int, str]] = []
        """Lines that are not yet in a file."""

    def has(self, batch: int, line: str) -> bool:
        """Whether a file has the line of a batch. A damaged journal does not stop a stage: it is a
        record for people.
        """
        return any(line in _raw_lines(self.store, name) for name in _journal_names(self.store, batch))

    def starts(self, batch: int) -> bool:
        """Whether the line of this batch is the first of a driver, or of a thousand."""
        return not self._begun or batch % LINES_PER_JOURNAL == 0

    def write(self, line: str, batch: int, run: str) -> None:
        """Append a line, in a file that only this driver writes."""
        self._begun = True
        if self.store.appends:
            return self.store.append(f"journal/{batch // LINES_PER_JOURNAL:06d}-{run}.jsonl", line)
        if self._lines and batch // LINES_PER_JOURNAL != self._lines[0][0] // LINES_PER_JOURNAL:
            self.flush(run)
        self._lines.append((batch, line))
        if batch % self._every == self._every - 1:
            self.flush(run)

    def flush(self, run: str) -> None:
        """Write the lines that are not yet in a file."""
        if self._lines:
            first, last = self._lines[0][0], self._lines[-1][0]
            name = f"journal/{first // LINES_PER_JOURNAL:06d}-{run}-{first:012d}-{last:012d}.jsonl"
            self.store.replace(name, "".join(f"{line}\n" for _, line in self._lines).encode())
            self._lines = []


def journal_lines(store: Store, batch: int | None = None) -> list[str]:
    """The lines of the journal in the order of their batches, each batch once. With `batch`, only
    the files that may hold it are read.
    """
    return read_journal(store, batch)[0]


def read_journal(store: Store, batch: int | None = None) -> tuple[list[str], str]:
    """The lines of the journal, and the incomplete last line of its newest
    file (empty if that is complete).

    A driver that dies may leave the last line of its file incomplete; its successor writes that
    line again. Any other line that cannot be read is an error.
    """
    line_of: dict[int, str] = {}
    torn = ""
    for name in _journal_names(store, batch):
        lines = _raw_lines(store, name)
        torn = ""
        for at, line in enumerate(lines, start=1):
            number = _batch_of(line)
            if number is not None:
                line_of.setdefault(number, line)
            elif at == len(lines):
                torn = line
            else:
                raise CorruptState(
                    f"{store.path(f'journal/{name}')}, journal line {at}, cannot be read: {line[:60]!r}; remove the line"
                )
    if not store.appends:
        log = CommitLog(store)
        for entry in log.history(log.last(), 2 * OUTSIDE.get().every):
            assert entry.body is not None, "a history has commits alone"
            if batch is None or entry.body["batch"] == batch:
                line_of.setdefault(int(entry.body["batch"]), str(entry.body["journal"]))
    return [line_of[number] for number in sorted(line_of)], torn


def _journal_names(store: Store, batch: int | None) -> list[str]:
    """The files of the journal; with `batch`, only those that may hold its line."""
    prefix = "" if batch is None else f"{batch // LINES_PER_JOURNAL:06d}-"
    names = [n for n in store.names("journal") if n.endswith(".jsonl") and n.startswith(prefix)]
    if batch is None:
        return names
    spans = ((n, _FEW_LINES.search(n)) for n in names)
    return [n for n, span in spans if span is None or int(span[1]) <= batch <= int(span[2])]


def _raw_lines(store: Store, name: str) -> list[str]:
    lines = store.read(f"journal/{name}").decode("utf-8", errors="replace").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _batch_of(line: str) -> int | None:
    try:
        return int(json.loads(line)["report"]["batch"])
    except (ValueError, KeyError, TypeError):
        return None
