"""What can go wrong, as values: each fault strikes at one operation on the store, or one task."""

from __future__ import annotations

from dataclasses import dataclass


class Killed(BaseException):
    """The process that runs this code has died. Whatever it still tries has no effect."""


class Endless(BaseException):
    """Far more operations than any history needs: somebody tries the same thing again and again."""


KINDS: dict[str, str] = {
    "kill": "the driver dies before the operation",
    "kill after": "the driver dies right after the operation",
    "error": "the operation fails, and nothing has happened",
    "lost answer": "the operation happens, but the caller gets an error",
    "late": "the caller gets an error, and the operation happens later",
    "late kill": "the driver dies, and its last request arrives later",
    "twice": "the operation happens, and once more later",
    "sent again": "the operation happens, its answer is lost, and the file system sends it again",
    "stale listing": "a listing shows what was there some changes ago",
    "full": "there is no room for a while",
    "sleep": "the driver sleeps before the operation, and wakes up later",
    "naps": "the driver falls asleep again and again, so that it and the next one take turns",
    "power loss": "the machine loses power: what was not made durable may be lost or torn",
    "task dies": "a task's process dies before the operation; the task is tried again",
    "executor dies": "the same, and the executor's memory is lost",
    "zombie task": "a task hangs, another attempt does its work, and later it goes on",
    "task twice": "two attempts of a task run to their end",
    "cold cache": "all executors lose their memory",
    "stale cache": "an executor comes back with what it had in memory long ago",
    "bit rot": "a bit of a stored file flips, until the file is restored from a backup",
    "range vanishes": "a range of the source cannot be read for a while",
    "clock jumps": "the clock goes forward or back",
}
"""Every kind of fault, in words."""

DISK_ONLY = frozenset(["power loss"])
OBJECTS_ONLY = frozenset(["lost answer", "late", "late kill", "twice", "sent again", "stale listing"])
IN_TASKS = frozenset(["task dies", "executor dies", "zombie task", "task twice"])
BEFORE = frozenset(["cold cache", "stale cache", "bit rot", "range vanishes", "clock jumps"])
"""These strike before a step, not at an operation."""


ON_READS = frozenset(["sleep", "naps", "error"])
"""These strike at operations that only look, too."""
AWAY = ("sleep", "naps")
"""After these two drivers are at work at once."""


@dataclass(frozen=True)
class Fault:
    """A fault of a step. It strikes at operation number `at` since the step began (of those that change
    something, unless `any` is set), or before it. A fault whose operation is never reached does not strike.
    """

    kind: str
    at: int = 0
    any: bool = False
    """Count all operations, also those that only look."""
    place: str = ""
    """Count only operations of this kind (`list`), or on paths with this part (`log`)."""
    later: int = 0
    """After so many more operations a late request arrives, or a sleeper wakes up; of naps, their number."""
    until: str = ""
    """A sleeper wakes up when another process comes to an operation at this place."""
    pick: int = 0
    """Chooses among files, lengths and tasks."""

    def is_at(self, what: str, path: str) -> bool:
        """Whether an operation is at the place of this fault."""
        return what == self.place or f"/{self.place}" in path

    def wakes_at(self, what: str, path: str) -> bool:
        """Whether a sleeper wakes up at an operation of another process."""
        return bool(self.until) and (what == self.until or f"/{self.until}" in path)

    def __str__(self) -> str:
        if self.kind in BEFORE:
            return f"{self.kind} of {self.place}" if self.place else self.kind
        place = f" of `{self.place}`" if self.place else ""
        parts = [f"{self.kind} at {'operation' if self.any else 'change'} {self.at}{place}"]
        if self.later:
            counted = {"naps": "times", "stale listing": "changes old"}
            parts.append(f"{self.later} {counted.get(self.kind, 'operations later')}")
        if self.until:
            parts.append(f"or when another one comes to `{self.until}`")
        return ", ".join(parts)
