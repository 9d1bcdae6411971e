"""One attempt at a template's work, in the process that it is called in, within bounds of time and memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from headgate import logs
from headgate.errors import QueryFailed
from headgate.service.batch.bounds import Deadline, memory_within
from headgate.sizes import parse_bytes
from headgate.sql.blame import Tried
from headgate.sql.engine import Engine
from headgate.sql.run_words import UNKNOWN, why_it_failed
from headgate.sql.shared import TemplateResult, Work

log = logs.logger("headgate.service")
MEMORY_FACTOR = 2
"""How much more than its engine a worker process may use while it computes: results, and texts while they are built,
are not in the engine's count.
"""
BROKEN = (
    pa.ArrowException,
    ArithmeticError,
    AssertionError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What computing can raise beside QueryFailed. Errors of storage are none of these."""
Step = Callable[[Work, Engine], TemplateResult]


@dataclass(frozen=True)
class Bounds:
    """What an attempt may take of memory."""

    memory: str
    """Of the engine, as it was configured."""
    bytes_more: int
    """Of its process, beside what it uses already."""

    @classmethod
    def of(cls, memory: str) -> Bounds:
        """The bounds of a task whose engine has so much memory."""
        return cls(memory, MEMORY_FACTOR * parse_bytes(memory, "memory"))


def bounded(step: Step, work: Work, engine: Engine, seconds: float, bounds: Bounds) -> Tried:
    """Run a step within bounds of time and memory."""
    began, cpu_began = time.perf_counter(), time.process_time()
    result, why = None, ""
    with Deadline(seconds, engine.interrupt) as deadline, memory_within(bounds.bytes_more):
        try:
            result = step(work, engine)
        except QueryFailed as error:
            why = why_it_failed(said := str(error.__cause__ or error))
            if why == UNKNOWN and not deadline.passed:
                log.warning("a statement failed, and there are no words for it: %s", said)
        except MemoryError:
            engine.starved = True
        except BROKEN as error:
            why = unexpected(error)
    if result is None and engine.starved:
        engine.renew()
        why = f"it needs more memory than the {bounds.memory} of a task: read fewer rows, or shorter texts"
    elif result is None and deadline.passed:
        why = (
            f"it takes too long: more than {seconds:.3g} s for one batch. Read fewer rows, or make it simpler"
        )
    cpu = time.process_time() - cpu_began
    return Tried(time.perf_counter() - began, result, why, deadline.passed, cpu=cpu)


def unexpected(error: Exception) -> str:
    """Why a computation failed that broke in an unknown way."""
    return f"it could not be computed: {type(error).__name__}: {error}"
