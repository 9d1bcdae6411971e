"""What must hold of a service's stored files after every step. They are read as they are, without its code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import xxhash

from headgate_lab.chaos.checks import Files, Raw, _check_sections, _sum, _unsealed

NAME = "service"
"""The folder of a service's state."""


class ServiceRaw(Raw):
    """The files of a service: its log, state and results."""

    def __init__(self, root: str, kept: int, before: Raw | None = None) -> None:
        super().__init__(root, NAME, "", before)
        self.kept = kept
        self.results: dict[int, Any] = {}
        """By batch: the results that were committed."""
        if isinstance(before, ServiceRaw):
            self.results = dict(before.results)
        self._entries: dict[str, tuple[bytes, dict[str, Any]]] = {}

    def problems(self, files: Files, *, rotten: str = "") -> Iterator[str]:
        """What is wrong now."""
        try:
            manifests = self.manifests(files)
        except (AssertionError, ValueError, KeyError, IndexError) as error:
            yield f"the log cannot be read: {error}"
            return
        batch = -1 if not manifests else int(manifests[0]["batch"])
        if batch < self.committed:
            yield f"batch {self.committed} was committed, and now the newest is {batch}"
        self.committed = max(self.committed, batch)
        if len(manifests) < min(self.kept, batch + 1):
            yield f"the log goes back {len(manifests)} batches from batch {batch}, and {self.kept} are kept"
        for place in manifests[0]["pieces"] if manifests else ():
            for piece in place[3]:
                yield from self._table(files, "state", piece)
        for manifest in manifests[: self.kept]:
            if self.results.setdefault(manifest["batch"], manifest["results"]) != manifest["results"]:
                yield f"batch {manifest['batch']} was committed with other results before"
            for _, tables in manifest["results"]:
                for table in tables:
                    yield from self._table(files, "results", table)

    def manifests(self, files: Files) -> list[dict[str, Any]]:
        """The manifests that the log has, newest first. Each names the one before it."""
        found = list[dict[str, Any]]()
        names = self._names(files)
        entry = self._entry(files, names[-1]) if names else None
        while entry is not None:
            if entry["body"] is not None:
                found.append(entry["body"])
            if len(found) > 1:
                batch, after = found[-1]["batch"], found[-2]["batch"]
                assert batch == after - 1, f"batch {after} was committed after batch {batch}"
            if entry["before"] is None:
                break
            number, checksum = entry["before"]
            name = f"{self.checkpoint}/log/{number:012d}.json"
            if name in files and _sum(files[name]) == checksum:
                entry = self._entry(files, name)
            else:
                assert found, f"the newest claim names commit {number}, and {name} is not that commit"
                entry = None
        return found

    def servers(self, files: Files) -> set[int]:
        """The servers of which the newest commit names state."""
        return {place[0] for manifest in self.manifests(files)[:1] for place in manifest["pieces"]}

    def owner(self, files: Files) -> str:
        """The token of the driver that wrote the newest entry of the log."""
        names = self._names(files)
        return str(self._entry(files, names[-1])["driver"][3]) if names else ""

    def _names(self, files: Files) -> list[str]:
        """The entries of the log."""
        start = f"{self.checkpoint}/log/"
        names = [name for name in files if name.startswith(start) and name.endswith(".json")]
        return sorted(name for name in names if len(name) == len(start) + 17)

    def _entry(self, files: Files, name: str) -> dict[str, Any]:
        data = files[name]
        known = self._entries.get(name)
        if known is None or known[0] is not data:
            known = self._entries[name] = data, _unsealed(data, name)
        return known[1]

    def _table(self, files: Files, folder: str, table: list[Any]) -> Iterator[str]:
        """A table that a manifest names is there, and its bytes are what was written."""
        name, _, _, at, size, checksum, *_ = table
        path = f"{self.checkpoint}/{folder}/{name}"
        data = files.get(path)
        if data is None:
            yield f"{path} is gone, and a batch that is kept names it"
            return
        if xxhash.xxh3_64_intdigest(data[at : at + size]) != checksum:
            yield f"{path} does not hold what the commit says"
        if self._sound.get(path) is not data:
            try:
                _check_sections(data, path)
            except (AssertionError, ValueError, KeyError) as error:
                yield f"{path} is damaged: {error}"
            self._sound[path] = data

    def rubbish(self, files: Files, drivers: int, *, waves: bool = False) -> Iterator[str]:
        """Files that nobody needs, after a driver has committed without a fault."""
        manifests = self.manifests(files)[: self.kept]
        if not manifests:
            return
        needed = {f"state/{name}" for name in _files(place[3] for place in manifests[0]["pieces"])}
        needed |= {
            f"results/{name}"
            for manifest in manifests
            for name in _files(tables for _, tables in manifest["results"])
        }
        for path in files:
            inner = path.removeprefix(f"{self.checkpoint}/")
            folder, _, name = inner.partition("/")
            if folder in ("state", "results") and inner not in needed:
                yield path
            if folder == "constants" and f"-{manifests[0]['run']}" not in name:
                yield path
        left = [n for n in files if n.endswith(".tmp") or n.startswith(f"{self.checkpoint}/log/")]
        if len(left) > len(manifests) + 3 + 2 * drivers:
            yield left[0]


def _files(tables: Any) -> Iterator[str]:
    for several in tables:
        for table in several:
            yield table[0]
