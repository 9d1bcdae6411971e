"""The end of a journal that may still grow: each line is read once, and old files are not read at all."""

from __future__ import annotations

from headgate.storage.store import Store


class JournalTail:
    """The lines of a journal, as they come. An incomplete last line waits until it is complete."""

    def __init__(self, store: Store, most: int) -> None:
        """`most` is the number of lines that are wanted from a journal that exists already."""
        self._store, self._most = store, most
        self._read: dict[str, int] | None = None
        """How many bytes of each file were read; None before the first look."""

    def lines(self) -> list[str]:
        """The lines that are new since the last call; the first time, about `most` of the newest ones."""
        names = [name for name in self._store.names("journal") if name.endswith(".jsonl")]
        if self._read is not None:
            return self._new(names)
        self._read = {}
        found: list[str] = []
        for block in sorted({_block(name) for name in names}, reverse=True):
            if len(found) < self._most:
                found[:0] = self._new([name for name in names if _block(name) == block])
        self._oldest = min((_block(name) for name in self._read), default="")
        return found

    _oldest = ""
    """Files of earlier batches are not read."""

    def _new(self, names: list[str]) -> list[str]:
        assert self._read is not None, "the first look sets it"
        lines: list[str] = []
        for name in names:
            start = self._read.get(name, 0)
            if _block(name) < self._oldest or (start and not self._store.appends):
                continue
            try:
                data = (
                    self._store.read(f"journal/{name}", start)
                    if start
                    else self._store.read(f"journal/{name}")
                )
            except FileNotFoundError:
                continue
            whole = data[: data.rfind(b"\n") + 1]
            self._read[name] = start + len(whole)
            lines += whole.decode("utf-8", errors="replace").splitlines()
        return lines


def _block(name: str) -> str:
    """The thousand of batches that a file is about."""
    return name.partition("-")[0]
