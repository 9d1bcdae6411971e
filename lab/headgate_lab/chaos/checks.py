"""What must hold of the stored files after every step. They are read as they are, without the product's code.

Every file that the newest commit names is there, with its checksum; batches that readers have seen stay
as they are; and once faults have stopped, what nobody needs is removed.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

_END = struct.Struct("<QQ8s")
Files = Mapping[str, bytes]


class Raw:
    """The files of one checkpoint and its output, by their paths."""

    def __init__(self, root: str, name: str, sink: str, before: Raw | None = None) -> None:
        """What `before` has verified is not verified again."""
        self.checkpoint, self.out, self.sink = f"{root}/{name}", f"{root}/out", sink
        self._sound: dict[str, bytes] = {} if before is None else dict(before._sound)
        """Section files whose checksums were verified."""
        self._rows: dict[str, tuple[bytes, list[dict[str, Any]]]] = {}
        self._read: dict[str, tuple[bytes, Any]] = {}
        """What sealed files and journals say; bytes that were read once are not read again."""
        if before is not None:
            self._rows, self._read = dict(before._rows), dict(before._read)
        self.committed = -1
        """The newest batch that was seen to be committed."""

    def newest(self, files: Files) -> dict[str, Any] | None:
        """The manifest of the newest commit; a problem with the log is an AssertionError."""
        start = f"{self.checkpoint}/log/"
        names = [name for name in files if name.startswith(start) and name.endswith(".json")]
        names = [name for name in names if len(name) == len(start) + 17]
        if not names:
            return None
        entry = self._record(files, max(names))
        if entry["body"] is None and entry["before"] is not None:
            number, checksum = entry["before"]
            name = f"{start}{number:012d}.json"
            assert name in files, f"the newest claim names commit {number}, and {name} is gone"
            assert _sum(files[name]) == checksum, f"{name} is not the commit that the newest claim names"
            entry = self._record(files, name)
        body: dict[str, Any] | None = entry["body"]
        return body

    def problems(self, files: Files, *, rotten: str = "") -> Iterator[str]:
        """What is wrong now. `rotten` is a file that was damaged on purpose."""
        if rotten:
            return
        try:
            manifest = self.newest(files)
        except (AssertionError, ValueError, KeyError, IndexError) as error:
            yield f"the log cannot be read: {error}"
            return
        batch = -1 if manifest is None else int(manifest["batch"])
        if batch < self.committed:
            yield f"batch {self.committed} was committed, and now the newest is {batch}"
        self.committed = max(self.committed, batch)
        if manifest is None:
            return
        yield from _stale_bins(manifest)
        for name in self.named(manifest):
            yield from self._section_file(files, f"{self.checkpoint}/{name}")
        yield from self._output(files, manifest)

    def named(self, manifest: Mapping[str, Any]) -> Iterator[str]:
        """The files of state and backlog that a manifest names."""
        for name, _, _ in manifest["state"]["files"]:
            yield f"state/{name}"
        for name in dict.fromkeys(entry[0] for entry in manifest["backlog"]):
            yield f"backlog/{name}"

    def _section_file(self, files: Files, path: str) -> Iterator[str]:
        data = files.get(path)
        if data is None:
            yield f"{path} is gone, and the newest commit names it"
        elif self._sound.get(path) is not data:
            try:
                _check_sections(data, path)
            except (AssertionError, ValueError, KeyError, struct.error) as error:
                yield f"{path} is damaged: {error}"
            self._sound[path] = data

    def _output(self, files: Files, manifest: Mapping[str, Any]) -> Iterator[str]:
        """The output of the newest commit is staged, or on its way, or shown."""
        number = manifest["batch"]
        for name, size, checksum in manifest["output"]:
            folder, _, base = name.rpartition("/")
            if self.sink == "parquet":
                staging = f"{self.out}/_staging"
                places = [
                    f"{staging}/{name}",
                    f"{staging}/{folder}.ready/{base}",
                    f"{self.out}/batch={number}/{base}",
                ]
            else:
                places = [f"{self.checkpoint}/output/{name}"]
            found = [files[place] for place in places if place in files]
            if not any(len(data) == size and _sum(data) == checksum for data in found):
                yield f"output {name} of batch {number} is {'damaged' if found else 'gone'}"

    # -- what readers see

    def shown(self, files: Files) -> dict[int, list[dict[str, Any]]]:
        """The batches of the Parquet folder by the rule for readers."""
        start = f"{self.out}/_batches/"
        batches = {}
        for name in sorted(n for n in files if n.startswith(start) and n.endswith(".json")):
            record = self._record(files, name)
            rows: list[dict[str, Any]] = []
            for base, size, checksum in record["files"]:
                path = f"{self.out}/batch={record['batch']}/{base}"
                assert path in files, f"{path} is gone, and the record of its batch names it"
                data = files[path]
                known = self._rows.get(path)
                if known is None or known[0] is not data:
                    assert (len(data), _sum(data)) == (size, checksum), f"{path} is not what its record says"
                    table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
                    known = self._rows[path] = data, table.to_pylist()
                rows += known[1]
            batches[record["batch"]] = rows
        return batches

    # -- the journal

    def journal(self, files: Files, *, in_commits: bool = False) -> Iterator[str]:
        """Committed batches of which the journal has no line, or two different ones."""
        start = f"{self.checkpoint}/journal/"
        lines: dict[bytes, int] = {}
        for name in files:
            if name.startswith(start):
                lines |= self._once(files, name, _batches)
        if in_commits:
            lines |= self._in_commits(files)
        told = Counter(lines.values())
        for batch in range(self.committed + 1):
            if told[batch] != 1:
                yield f"{start} has {told[batch] or 'no'} lines of batch {batch}, and must have one"

    def _in_commits(self, files: Files) -> dict[bytes, int]:
        """Where files cannot grow, the lines of the last batches are in their commits."""
        start = f"{self.checkpoint}/log/0"
        names = [n for n in files if n.startswith(start) and n.endswith(".json")]
        entries = (self._record(files, name) for name in names)
        commits = (entry["body"] for entry in entries if entry["body"] is not None)
        return {body["journal"].encode(): int(body["batch"]) for body in commits}

    def _record(self, files: Files, name: str) -> dict[str, Any]:
        record: dict[str, Any] = self._once(files, name, lambda data: _unsealed(data, name))
        return record

    def _once(self, files: Files, name: str, read: Callable[[bytes], Any]) -> Any:
        """What `read` makes of a file, unless that is known from before."""
        data, known = files[name], self._read.get(name)
        if known is None or known[0] is not data:
            known = self._read[name] = data, read(data)
        return known[1]

    # -- rubbish

    def rubbish(self, files: Files, drivers: int, *, waves: bool) -> Iterator[str]:
        """Files that nobody needs, after a driver has committed without a fault. In the log there are the
        claims of all `drivers`, the last commits, and perhaps drafts of entries. The rows of
        waves are removed by the next batch that has waves; `waves` says that there was one.
        """
        manifest = self.newest(files)
        if manifest is None:
            return
        needed = {f"{self.checkpoint}/{name}" for name in self.named(manifest)}
        stray = () if self.sink != "parquet" else self._stray(files, manifest["batch"])
        staged = f"{self.checkpoint}/output/{manifest['batch']:012d}-{manifest['run']}/"
        for path in files:
            for folder in ("state", "backlog", "waves") if waves else ("state", "backlog"):
                if path.startswith(f"{self.checkpoint}/{folder}/") and path not in needed:
                    yield path
            if path.startswith(f"{self.checkpoint}/output/") and not path.startswith(staged):
                yield path
            if path.startswith((f"{self.out}/_staging/", *stray)):
                yield path
        left = [n for n in files if n.endswith(".tmp") or n.startswith(f"{self.checkpoint}/log/")]
        if len(left) > 4 + 2 * drivers:
            yield left[0]

    def _stray(self, files: Files, batch: int) -> tuple[str, ...]:
        """Files in the folders of the last two batches that their records do not name."""
        found = []
        for number in (batch - 1, batch):
            record = f"{self.out}/_batches/{number:012d}.json"
            if record in files:
                named = {name for name, *_ in self._record(files, record)["files"]}
                start = f"{self.out}/batch={number}/"
                found += [n for n in files if n.startswith(start) and n[len(start) :] not in named]
        return tuple(found)


def _stale_bins(manifest: Mapping[str, Any]) -> Iterator[str]:
    """The index of state has only bins of the table; a bin that is gone would keep its files for ever."""
    table, state = manifest["table"], manifest["state"]
    bins = {*range(table["hash_bins"]), *(bin for _, bin, _ in table["pins"])}
    for what in ("bases", "sizes", "keys", "due"):
        gone = sorted(set(state[what][0]) - bins)
        if gone:
            yield f"batch {manifest['batch']} has {what} of bin {gone[0]}, which its table does not have"


def _sum(data: bytes) -> str:
    return str(xxhash.xxh3_64_hexdigest(data))


def _batches(data: bytes) -> dict[bytes, int]:
    """The batch of each line of a journal. A driver may have died while it wrote the last one."""
    return {line: int(json.loads(line)["report"]["batch"]) for line in data.split(b"\n")[:-1]}


def _unsealed(data: bytes, where: str) -> dict[str, Any]:
    first, _, text = data.partition(b"\n")
    assert first.split()[2].decode() == _sum(text), f"the checksum of {where} does not match"
    record: dict[str, Any] = json.loads(text)
    return record


def _check_sections(data: bytes, where: str) -> None:
    size, checksum, magic = _END.unpack(data[-_END.size :])
    assert magic == b"HEADGATE", "its end is missing"
    footer = data[-_END.size - size : -_END.size]
    assert xxhash.xxh3_64_intdigest(footer) == checksum, "the footer's checksum does not match"
    head = json.loads(footer)
    assert where.endswith(head["file"]), f"it was written as {head['file']}"
    for *_, at, length, wanted in head["sections"]:
        assert xxhash.xxh3_64_intdigest(data[at : at + length]) == wanted, (
            "a section's checksum does not match"
        )
