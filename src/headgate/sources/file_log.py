"""The order in which files are read, written down before it is used.

Files that a listing finds are appended to the log, and a position in the log never changes its file. The log is kept
as segments. `<start>.json` holds the entries from position `start`; it is created exclusively, so that of two drivers
one wins and the other reads what the winner wrote. Many small segments are merged into `<start>-<end>.json`, which
repeats them, and then removed. A merged segment takes precedence over the small ones at its positions. A driver that
lags behind may create a small segment again after it was merged and removed: it looks for a merged one after each
create, finds it, and takes its own back. On an object store it looks only now and then: what it has created means
nothing beside a merged segment, and a driver that lags behind can commit nothing.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence

from headgate.errors import CorruptState
from headgate.sources.place import Entry
from headgate.storage.commit_log import sealed, unsealed
from headgate.storage.outside import OUTSIDE
from headgate.storage.store import Store

SEGMENT = 100_000
"""The most entries of a new segment."""
MANY = 64
"""So many small segments are merged."""
LARGE = 250_000
"""A segment of so many entries is not merged again."""
_TRIES = 100
_NAME = re.compile(r"(\d{12})(?:-(\d{12}))?\.json")


class FileLog:
    """All entries in memory, and the store that they are read from and appended to."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.paths: list[str] = []
        self.known: set[str] = set()
        self._sizes, self._mtimes = array("q"), array("q")
        self._appended = 0
        store.make("")
        self.load()
        self._merge()

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, at: int) -> Entry:
        return Entry(self.paths[at], self._sizes[at], self._mtimes[at])

    def load(self) -> None:
        """Read what is in the store and not yet in memory."""
        misses = 0
        while True:
            listed = self._next(*self._segments())
            start, name = listed or (len(self), _small(len(self)))  # a listing may be stale
            try:
                data = self.store.read(name)
            except FileNotFoundError:
                if listed is None:
                    return
                misses += 1  # another driver has merged it just now
                if misses > _TRIES:
                    raise CorruptState(
                        f"{self.store.path(name)} is listed but cannot be read; list the folder"
                    ) from None
                continue
            paths, sizes, mtimes = _decoded(data, self.store.path(name), least=len(self) - start + 1)
            skip = len(self) - start
            self._extend(paths[skip:], sizes[skip:], mtimes[skip:])

    def append(self, entries: Sequence[Entry]) -> None:
        """Append files, unless another driver has done so; then its order holds."""
        left = self._unknown(entries)
        while left:
            start, part = len(self), left[:SEGMENT]
            try:
                self.store.create(_small(start), _encoded(part))
            except FileExistsError:
                self.load()
                left = self._unknown(left)
                continue
            self._appended += 1
            every = 1 if self.store.appends else OUTSIDE.get().every
            looks = self._appended % every == 3 * every // 4
            small, merged = self._segments() if looks else ([], [])
            if any(first <= start < end for first, end in merged):
                self.store.remove(_small(start))
                self.load()
                left = self._unknown(left)
                continue
            self._extend(*zip(*part, strict=True))
            left = left[SEGMENT:]
            if len(small) >= MANY:
                self._merge()

    def _unknown(self, entries: Iterable[Entry]) -> list[Entry]:
        return list({entry.path: entry for entry in entries if entry.path not in self.known}.values())

    def _extend(self, paths: Iterable[str], sizes: Iterable[int], mtimes: Iterable[int]) -> None:
        known = len(self)
        self.paths.extend(paths)
        self._sizes.extend(sizes)
        self._mtimes.extend(mtimes)
        self.known.update(self.paths[known:])

    def _segments(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Where the small segments start, and from where to where the merged ones go."""
        found = [match.groups() for name in self.store.names("") if (match := _NAME.fullmatch(name))]
        small = [int(start) for start, end in found if end is None]
        return small, [(int(start), int(end)) for start, end in found if end is not None]

    def _next(self, small: list[int], merged: list[tuple[int, int]]) -> tuple[int, str] | None:
        """The segment that holds the next entry, and its first position."""
        at = len(self)
        covering = [span for span in merged if span[0] <= at < span[1]]
        if covering:
            start, end = max(covering, key=lambda span: span[1])
            return start, _merged(start, end)
        return (at, _small(at)) if at in small else None

    def _merge(self) -> None:
        """Merge small segments if there are many, and remove what merged ones repeat."""
        small, merged = self._segments()
        end = len(self)
        loose = [at for at in small if at < end and not any(first <= at < last for first, last in merged)]
        if len(loose) >= MANY:
            start = min(loose)
            for first, last in sorted(merged, reverse=True):
                if first < start <= last and last - first <= min(end - start, LARGE):
                    start = first
            self.store.write_once(_merged(start, end), _encoded([self[at] for at in range(start, end)]))
            merged.append((start, end))
        for first, last in merged:
            self.store.remove(*(_small(at) for at in small if first <= at < last))
            inside = [
                span for span in merged if span != (first, last) and first <= span[0] and span[1] <= last
            ]
            self.store.remove(*(_merged(*span) for span in inside))


def _small(start: int) -> str:
    return f"{start:012d}.json"


def _merged(start: int, end: int) -> str:
    return f"{start:012d}-{end:012d}.json"


def _encoded(entries: Sequence[Entry]) -> bytes:
    paths, sizes, mtimes = zip(*entries, strict=True)
    return sealed({"paths": paths, "sizes": sizes, "mtimes": mtimes})


def _decoded(data: bytes, where: str, least: int) -> tuple[list[str], list[int], list[int]]:
    body = unsealed(data, where)
    try:
        paths, sizes, mtimes = (body[part] for part in ("paths", "sizes", "mtimes"))
        if not least <= len(paths) == len(sizes) == len(mtimes):
            raise ValueError("it lacks entries")
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptState(f"{where} is not a segment of a log of files; restore it from a backup") from error
    return paths, sizes, mtimes
