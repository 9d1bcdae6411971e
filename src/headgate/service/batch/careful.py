"""The engine in a process of its own: what ends that process fails alone, and the task goes on.

A batch computes in the task's own process. When that died, or could not be stopped, the batch is tried again in
this *careful* form: each attempt is sent to a child process, which has bounds of memory and is killed when its time is
over. A child that dies is a failed attempt, so `headgate.sql.blame` finds out whose computation it was. Another child
takes its place. Starting one takes about a second, so this form is for batches that need it.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import resource
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import pyarrow as pa

from headgate.errors import HeadgateError, TaskFailed
from headgate.service.batch.attempt import Bounds, bounded
from headgate.service.table_file import STATE, read_table
from headgate.sql.blame import Tried
from headgate.sql.engine import Engine, Function
from headgate.sql.shared import Piece, Work, step
from headgate.storage.store import Store

GRACE_S = 2.0
"""How much longer than its limit an attempt may take until its process is killed: the engine stops sooner if it can."""
START_S = 120.0
"""How long the start of a child may take."""
_LENGTH = struct.Struct("<q")
_PARENT_DIES = 1
"""PR_SET_PDEATHSIG of Linux."""


class WorkerDied(TaskFailed):
    """A worker process ended in the middle of a batch: it was killed, or native code in it crashed."""


@dataclass(frozen=True)
class StoredPieces:
    """Reads pieces of state from the store, or has them already."""

    store: Store

    def __call__(self, pieces: Sequence[Piece]) -> list[pa.Table]:
        return [
            piece.ref if isinstance(piece.ref, pa.Table) else read_table(self.store, STATE, piece.ref)
            for piece in pieces
        ]


class CarefulEngine:
    """Attempts in a child process. It takes the place of an `Engine` in a task; `close()` ends the child."""

    def __init__(self, functions: Mapping[str, Function], bounds: Bounds, store: Store) -> None:
        self._settings = (dict(functions), bounds)
        self._load = StoredPieces(store)
        self._given = dict[str, pa.Table]()
        self._child: subprocess.Popen[bytes] | None = None
        self.deaths = 0
        """How many children died, or were killed."""

    def give(self, **tables: pa.Table) -> None:
        """Register tables by name, as `Engine.give` does."""
        self._given |= tables
        if self._child is not None:
            self._send(("give", tables))

    def attempt(self, work: Work, seconds: float) -> Tried:
        """Carry out a work within so many seconds; if its process dies, that is why it failed."""
        child = self._started()
        began = time.perf_counter()
        try:
            self._send(("attempt", replace(work, load=self._load), seconds))
            answer = self._answer(seconds + GRACE_S)
        except TimeoutError:
            self._kill()
            why = f"it takes too long: more than {seconds:.3g} s for one batch, and it could not be stopped"
            return Tried(time.perf_counter() - began, None, why, too_long=True)
        except (EOFError, OSError):
            self._kill()
            return Tried(time.perf_counter() - began, None, _ended(child.returncode))
        if isinstance(answer, HeadgateError):
            raise answer
        tried: Tried = answer
        return tried

    def close(self) -> None:
        """End the child."""
        self._kill(count=False)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            from pyspark import cloudpickle

            path = os.pathsep.join(part for part in sys.path if part)
            self._child = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": path},
            )
            try:
                # Functions of the operator may be local to a module that the child cannot import.
                self._send(("start", cloudpickle.dumps(self._settings)))
                self._answer(START_S)
            except (EOFError, OSError, TimeoutError) as error:
                self._kill()
                raise TaskFailed(f"a process for careful attempts could not be started: {error!r}") from error
            self._send(("give", self._given))
        return self._child

    def _send(self, message: Any) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):  # the child is dead: its answer does not come
            _write(self._child.stdin, pickle.dumps(message, protocol=5))

    def _answer(self, seconds: float) -> Any:
        assert self._child is not None
        assert self._child.stdout is not None
        out = self._child.stdout
        if not select.select([out], [], [], seconds)[0]:
            raise TimeoutError
        return pickle.loads(_read(out))

    def _kill(self, *, count: bool = True) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        self.deaths += count
        if child.stdout is not None:
            child.stdout.close()
        with suppress(OSError):
            if child.stdin is not None:
                child.stdin.close()
        try:
            child.wait(0.2 if count else 1.0)  # one that died has a signal of its own to tell
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _ended(code: int | None) -> str:
    """Why a child that ended in the middle of an attempt failed."""
    how = f"exit code {code}"
    if code is not None and code < 0:
        with suppress(ValueError):
            how = signal.Signals(-code).name
    return (
        f"it ended the process that computed it ({how}): it needs more memory than there is, or a function that it "
        "calls crashes"
    )


def _write(out: BinaryIO, data: bytes) -> None:
    out.write(_LENGTH.pack(len(data)))
    out.write(data)
    out.flush()


def _read(source: BinaryIO) -> bytes:
    head = source.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = source.read(length)
    if len(data) < length:
        raise EOFError
    return data


def main() -> None:
    """What a child does: attempts, until its parent closes the pipe or dies."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a function that prints does not speak to the parent
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PARENT_DIES, signal.SIGKILL)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")  # of all processes, the kernel kills this one first
    engine, bounds = Engine(), Bounds("", 0)
    with suppress(EOFError):
        while True:
            kind, *body = pickle.loads(_read(requests))
            if kind == "start":
                functions, bounds = pickle.loads(body[0])
                engine = Engine(functions, memory=bounds.memory)
                _write(answers, pickle.dumps(None))
            elif kind == "give":
                engine.give(**body[0])
            else:
                _write(answers, pickle.dumps(_attempted(body[0], engine, body[1], bounds), protocol=5))


def _attempted(work: Work, engine: Engine, seconds: float, bounds: Bounds) -> Tried | HeadgateError:
    try:
        tried = bounded(step, work, engine, seconds, bounds)
    except HeadgateError as error:  # of storage: it is nobody's fault, and the task fails
        return error
    return replace(tried, peak_bytes=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    main()
