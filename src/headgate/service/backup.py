"""A backup of a running service, and a service made of a backup.

Law: a backup is what a kill at one moment would have left on disk. The newest entry of the commit log is the same before
and after the moment at which the registry is seen and pushed events are copied, so the three belong together as they do
after a kill, from which a service recovers. What the commit names is copied later: a pin keeps its files from being removed.

    TARGET/backup.json      what is in it, with checksums; written last
    TARGET/registry.db      the registry, as SQLite wherever it was
    TARGET/state/...        the log's newest entries, and the files that their commits name
    TARGET/push/...         pushed events
    TARGET/folder/...       the admin's token, other databases, and Spark's checkpoint if there is one
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from headgate import __version__
from headgate.errors import CheckpointError, ConfigError, CorruptState, NewerFormat
from headgate.service.batch_log import pin
from headgate.service.manifest import BatchManifest
from headgate.service.places import Places
from headgate.service.private import private_folder
from headgate.service.registry import FORMAT as REGISTRY_FORMAT
from headgate.service.registry_copy import RegistryView, copy_database, fill_registry, format_in, view_of
from headgate.service.table_file import RESULTS, STATE
from headgate.storage.commit_log import CLEARED, CommitLog, Entry, entry_name, sealed, unsealed
from headgate.storage.store import Store

FORMAT = 1
MANIFEST = "backup.json"
OF_FOLDER = ("token", "spark")
TRIES = 200
"""How often the moment is sought at which no batch is committed."""
MOST_BATCHES = 500
"""Of how many batches the results are copied."""
Step = Callable[[str], None]


def backup(places: Places, target: Path, on_step: Step = lambda step: None) -> dict[str, Any]:
    """Copy a service, which may run meanwhile, to a folder that does not exist or is empty; returns figures."""
    _check_empty(target, "a backup needs a folder of its own")
    state = Store(places.state)
    log = CommitLog(state)
    if log.newest_entry() is None:
        raise ConfigError(f"there is no service at {places.state}: nothing to back up")
    private_folder(target)
    with pin(state):
        on_step("pinned")
        newest, view = _cut(places, log, target, on_step)
        with closing(view):
            on_step("cut")
            view.copy_to(target / "registry.db")
        for path in sorted(places.folder.glob("*.db")):
            if path != Path(places.registry):  # a record beside the registry, such as who did what
                copy_database(path, target / "folder" / path.name)
        history = _copy_commits(state, log, newest, Store(str(target / "state")))
        on_step("copied")
    files = {name: _figures(target / name) for name in _files(target)}
    body = {
        "format": FORMAT,
        "headgate": __version__,
        "registry_format": format_in(target / "registry.db"),
        "at": time.time(),
        "batch": history[-1].batch if history else -1,
        "files": files,
    }
    _write(target / MANIFEST, sealed(body))
    return _facts(body)


def _cut(places: Places, log: CommitLog, target: Path, on_step: Step) -> tuple[Entry, RegistryView]:
    """Find a moment between two commits, and copy what the commit does not name."""
    for _ in range(TRIES):
        newest = log.newest_entry()
        assert newest is not None, "entries are never all removed"
        on_step("looked")
        view = view_of(places.registry)
        try:
            shutil.rmtree(target / "push", ignore_errors=True)
            shutil.rmtree(target / "folder", ignore_errors=True)
            copied = _copy_tree(Store(places.push), target / "push") and _copy_tree(
                Store(places.state).child("streams"), target / "state" / "streams"
            )
            for name in OF_FOLDER:
                if (places.folder / name).exists():
                    copied = copied and _copy_tree(Store(str(places.folder)), target / "folder", name)
            on_step("between")
            again = log.newest_entry()
            if copied and again is not None and again.link == newest.link:
                return newest, view
        except BaseException:
            view.close()
            raise
        view.close()
    raise CheckpointError(
        f"batches are committed faster than the pushed events in {places.push} can be copied: back up to a faster disk, or "
        "stop the service (a standby too) for the backup"
    )


def _copy_commits(state: Store, log: CommitLog, newest: Entry, to: Store) -> list[BatchManifest]:
    """Copy the newest entry, the commits before it, and what they name."""
    last = log.read_entry(newest.last.number) if newest.last is not None else None
    if newest.last is not None and (last is None or last.link != newest.last):
        raise _removed(state, entry_name(newest.last.number))
    entries = log.history(last, MOST_BATCHES)
    manifests = [BatchManifest.from_json(entry.body) for entry in entries if entry.body is not None]
    to.make("log", STATE, RESULTS)
    names = {f"{STATE}/{name}" for name in manifests[-1].state_files} if manifests else set[str]()
    names |= {f"{RESULTS}/{name}" for name in manifests[-1].result_files} if manifests else set[str]()
    for name in sorted(names | {entry_name(newest.link.number)}):
        if not _copy(state, name, to):
            raise _removed(state, name)
    if manifests:
        to.write(CLEARED, [b""])
    for entry, manifest in zip(entries[::-1], manifests[::-1], strict=True):
        of_batch = [f"{RESULTS}/{name}" for name in sorted(manifest.result_files)]
        if not all(_copy(state, name, to) for name in [*of_batch, entry_name(entry.link.number)]):
            break  # a leader of a version without pins has removed it: older results are not in the backup
    return manifests


def _removed(state: Store, name: str) -> CheckpointError:
    return CheckpointError(
        f"{state.path(name)} was removed while it was backed up: does an older version of headgate lead the service? Try "
        "again, or stop the service for the backup"
    )


def restore(source: Path, places: Places) -> dict[str, Any]:
    """Make a service of a backup, in a folder (and other places) that hold nothing; returns figures."""
    before = os.umask(0o077)
    try:
        return _restore(source, places)
    finally:
        os.umask(before)


def _restore(source: Path, places: Places) -> dict[str, Any]:
    body = check(source)
    _check_empty(places.folder, "a service is restored into a new folder")
    state, push = Store(places.state), Store(places.push)
    for store, folder in ((state, "log"), (push, "")):
        if store.names(folder):
            raise ConfigError(
                f"{store.path(folder)} holds a service already: restore to a place that is empty"
            )
    draft = places.folder.with_name(f".{places.folder.name}.restoring")
    shutil.rmtree(draft, ignore_errors=True)
    private_folder(draft)
    inside = Places.of(draft)

    def to_store(given: str, name: str) -> Store:
        """Where files go: what belongs into the folder is made beside it, and appears at once."""
        if Path(given) == places.folder / name:
            return Store(getattr(inside, name))
        return Store(given)

    stores = {
        "push": to_store(places.push, "push"),
        "state": to_store(places.state, "state"),
        "folder": Store(str(draft)),
    }
    for store in stores.values():
        store.make("")
    for name in sorted(body["files"], key=lambda name: (name.startswith("state/log/"), name)):
        first, _, rest = name.partition("/")
        if first in stores:
            stores[first].make(rest.rpartition("/")[0])
            stores[first].write(rest, [(source / name).read_bytes()])
    registry = places.registry
    if Path(registry) == places.folder / "registry.db":
        registry = inside.registry
    fill_registry(source / "registry.db", registry)
    if places.folder.exists():
        places.folder.rmdir()
    draft.rename(places.folder)
    return _facts(body)


def check(source: Path) -> dict[str, Any]:
    """Read what a backup holds, and compare all of it with its checksums."""
    try:
        data = (source / MANIFEST).read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(
            f"{source} is no backup, or one that was not finished: it has no {MANIFEST}"
        ) from error
    body = unsealed(data, str(source / MANIFEST))
    for what, found, most in (
        ("the backup", body["format"], FORMAT),
        ("its registry", body["registry_format"], REGISTRY_FORMAT),
    ):
        if found > most:
            raise NewerFormat(
                f"{what} in {source} has format {found}, but this headgate reads formats up to {most}: upgrade headgate"
            )
    there = set(_files(source))
    for name, figures in body["files"].items():
        if name not in there:
            raise CorruptState(f"{source / name} is missing; use another backup")
        if _figures(source / name) != figures:
            raise CorruptState(f"{source / name} is damaged: its checksum does not match; use another backup")
    return body


def _facts(body: dict[str, Any]) -> dict[str, Any]:
    sizes = [size for size, _ in body["files"].values()]
    return {"files": len(sizes), "bytes": sum(sizes), "batch": body["batch"], "at": body["at"]}


# -- files


def _check_empty(folder: Path, why: str) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is not empty: {why}")


def _copy(store: Store, name: str, to: Store) -> bool:
    """Copy a file, unless it is there already; False if it does not exist any more."""
    if to.exists(name):
        return True
    try:
        data = store.read(name)
    except FileNotFoundError:
        return False
    to.make(name.rpartition("/")[0])
    to.write(name, [data])
    return True


def _copy_tree(store: Store, to: Path, below: str = "") -> bool:
    """Copy all files of a folder, at any depth; False if one disappeared meanwhile."""
    target, root = Store(str(to)), store.path(below)
    target.make("")
    store.fs.invalidate_cache()
    for path in sorted(store.fs.find(root)) if store.fs.exists(root) else []:
        name = path[len(store.root) :].lstrip("/")
        if name.rpartition("/")[2].startswith(".") or name.endswith(".tmp"):
            continue  # a file that is being written
        if not _copy(store, name, target):
            return False
    return True


def _files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MANIFEST:
            yield path.relative_to(folder).as_posix()


def _figures(path: Path) -> list[Any]:
    """A file's size and checksum."""
    return [path.stat().st_size, Store(str(path.parent)).digest(path.name)]


def _write(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
