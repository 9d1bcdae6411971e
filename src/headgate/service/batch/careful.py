"""The engine in a process of its own: what ends that process fails alone, and the task goes on.

A batch computes in the task's own process. When that died, or could not be stopped, the batch is tried again in
this *careful* form: each attempt runs in a process of its own, which has bounds of memory and is killed when its time
is over. One that dies is a failed attempt, so `headgate.sql.blame` finds out whose computation it was.

The processes are forks of one child of the task, the nursery, which has one thread and no engine: a fork of the task
itself would inherit locks of threads that it lacks. Starting the nursery takes about a second.
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Any

import pyarrow as pa

from headgate.errors import HeadgateError, TaskFailed
from headgate.service.batch.attempt import Bounds, bounded
from headgate.service.table_file import STATE, read_table
from headgate.spark import inside
from headgate.sql.blame import Tried
from headgate.sql.engine import Engine, Function
from headgate.sql.shared import Piece, Work, step
from headgate.storage.store import Store

GRACE_S = 2.0
"""How much longer than its limit an attempt may take until its process is killed: the engine stops sooner if it can."""
START_S = 120.0
"""How long the start of the nursery may take."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
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
    """Attempts in forks of a child process, the nursery. It takes the place of an `Engine` in a task; `close()`
    ends the nursery.
    """

    def __init__(self, functions: Mapping[str, Function], bounds: Bounds, store: Store) -> None:
        self._settings = (dict(functions), bounds)
        self._load = StoredPieces(store)
        self._given = dict[str, pa.Table]()
        self._nursery: subprocess.Popen[bytes] | None = None

    def give(self, **tables: pa.Table) -> None:
        """Register tables by name, as `Engine.give` does."""
        self._given |= tables
        if self._nursery is not None:
            self._send(("give", tables))

    def attempt(self, work: Work, seconds: float) -> Tried:
        """Carry out a work within so many seconds; if its process dies, that is why it failed."""
        nursery = self._started()
        began = time.perf_counter()
        try:
            self._send(("attempt", replace(work, load=self._load), seconds))
            answer = self._answer(seconds + GRACE_S + START_S)
        except (EOFError, OSError, TimeoutError):  # the kernel has chosen the nursery itself
            self.close()
            return Tried(time.perf_counter() - began, None, _ended(nursery.returncode))
        if isinstance(answer, HeadgateError):
            raise answer
        tried: Tried = answer
        return tried

    def close(self) -> None:
        """End the nursery, and what it may have started."""
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            assert nursery.stdin is not None
            assert nursery.stdout is not None
            nursery.kill()
            nursery.wait()
            nursery.stdout.close()
            with suppress(OSError):
                nursery.stdin.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._nursery is None:
            path = os.pathsep.join(part for part in sys.path if part)
            self._nursery = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
            )
            try:
                self._send(("start", _pickled(self._settings)))
                self._answer(START_S)
            except (EOFError, OSError, TimeoutError) as error:
                self.close()
                raise TaskFailed(f"a process for careful attempts could not be started: {error!r}") from error
            self._send(("give", self._given))
        return self._nursery

    def _send(self, message: Any) -> None:
        assert self._nursery is not None
        assert self._nursery.stdin is not None
        with suppress(BrokenPipeError):  # it is dead: no answer comes
            _write(self._nursery.stdin, pickle.dumps(message, protocol=5))

    def _answer(self, seconds: float) -> Any:
        assert self._nursery is not None
        assert self._nursery.stdout is not None
        if not select.select([self._nursery.stdout], [], [], seconds)[0]:
            raise TimeoutError
        return pickle.loads(_read(self._nursery.stdout))


def _pickled(settings: Any) -> bytes:
    """Functions of the operator may be local to a module that the child cannot import: Spark's pickler takes those too."""
    return inside.pickled(settings) or pickle.dumps(settings)


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


def _write(out: IO[bytes], data: bytes) -> None:
    out.write(_LENGTH.pack(len(data)))
    out.write(data)
    out.flush()


def _read(source: IO[bytes]) -> bytes:
    head = source.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = source.read(length)
    if len(data) < length:
        raise EOFError
    return data


def main() -> None:
    """What the nursery does: attempts, each in a fork of it, until its parent closes the pipe or dies."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a function that prints does not speak to the parent
    _die_with_parent()
    pa.chunked_array([[1]]).to_numpy()  # imports what forks would import otherwise, each for itself
    given = dict[str, pa.Table]()
    settings = b""
    with suppress(EOFError):
        while True:
            kind, *body = pickle.loads(_read(requests))
            if kind == "start":
                settings = body[0]
                _write(answers, pickle.dumps(None))
            elif kind == "give":
                given |= body[0]
            else:
                work, seconds = body
                attempted = partial(_attempted, settings, given, work, seconds)
                _write(answers, _in_a_fork(attempted, seconds))


def _in_a_fork(call: Callable[[], bytes], seconds: float) -> bytes:
    """What a call returns in a process of its own; if that ends before, or takes too long, what became of it."""
    reading, writing = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if not child:
        with suppress(BaseException):
            os.close(reading)
            _die_with_parent(1000)
            with os.fdopen(writing, "wb") as out:
                _write(out, call())
            os._exit(0)
        os._exit(1)
    os.close(writing)
    data, late = bytearray(), False
    while True:
        left = began + seconds + GRACE_S - time.monotonic()
        if not select.select([reading], [], [], max(0.0, left))[0]:
            late = True
            os.kill(child, signal.SIGKILL)
            break
        part = os.read(reading, 1 << 20)
        if not part:
            break
        data += part
    os.close(reading)
    _, status, _ = os.wait4(child, 0)
    if len(data) >= _LENGTH.size and len(data) == _LENGTH.size + _LENGTH.unpack_from(data)[0]:
        return bytes(data[_LENGTH.size :])
    why = (
        f"it takes too long: more than {seconds:.3g} s for one batch, and it could not be stopped"
        if late
        else _ended(os.waitstatus_to_exitcode(status))
    )
    return pickle.dumps(Tried(time.monotonic() - began, None, why, late))


def _attempted(settings: bytes, given: Mapping[str, pa.Table], work: Work, seconds: float) -> bytes:
    """An attempt, and what came of it, in a fork. The modules of functions may start threads: only forks import them."""
    functions, bounds = pickle.loads(settings)
    engine = Engine(functions, memory=bounds.memory)
    answer: Tried | HeadgateError
    try:
        engine.give(**given)
        tried = bounded(step, work, engine, seconds, bounds)
        answer = replace(tried, peak_bytes=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    except HeadgateError as error:  # of storage: it is nobody's fault, and the task fails
        answer = error
    return pickle.dumps(answer, protocol=5)


def _die_with_parent(first: int = 500) -> None:
    """Have the kernel end this process with its parent, and sooner than others when memory is short."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PARENT_DIES, signal.SIGKILL)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(str(first))


if __name__ == "__main__":
    main()
