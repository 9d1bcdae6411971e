"""Bounded work in flight around a part of a Spark job (Faucet):
`hg.bounded(df, expand, batch=..., in_flight=...)`.

The input is staged on disk and cut into waves. Each wave is a Spark job of its own, which applies
`expand` to some of the rows, and at most `in_flight` waves are unfinished at any time. Admission is
`flow.gated_ranges`, which knows nothing of Spark; a wave is complete when its Spark job has ended.
Spark itself is not changed, and the rest of the job is not affected.

`expand` may return another `bounded` step; its waves run inside the wave that made it, under a gate
of their own. A wave that fails is retried alone. Its rows are emitted only when it has succeeded,
so nothing is emitted twice. If the retries fail too, all jobs of the run are cancelled.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from queue import Empty, Full, Queue
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from headgate import logs
from headgate.errors import ConfigError, HeadgateError, SinkFailed, WaveFailed
from headgate.flow.fan_out import FanOut
from headgate.flow.gate import AUTO, Gate
from headgate.flow.gated_ranges import GatedRanges, RangeWave
from headgate.flow.progress import Stamp
from headgate.flow.row_ranges import RowRange, whole_files
from headgate.spark.arrow_types import to_arrow_schema
from headgate.spark.engine import SparkEngine
from headgate.spark.engine_error import gist
from headgate.spark.gates.bounded_run import BoundedRun, Cancelled, RunSummary
from headgate.spark.gates.lazy_explode import LazyExplode, taken
from headgate.spark.gates.staged_rows import StagedRows
from headgate.spark.session import check_classic
from headgate.stage import sinks
from headgate.stage.sinks import Output
from headgate.storage.manifest import Written
from headgate.storage.outside import unique
from headgate.storage.parquet_folder import Owner
from headgate.storage.store import Store

log = logs.logger("headgate.bounded")

Expand = Callable[[DataFrame], "DataFrame | Bounded"]


@dataclass(frozen=True)
class Wave:
    """A finished wave: the rows that it took in, its duration, and the part of the
    whole input done so far (0 to 1).
    """

    stamp: Stamp
    rows: int
    seconds: float
    part: float


def bounded(
    df: DataFrame,
    expand: Expand | None = None,
    *,
    batch: int | str = "auto",
    in_flight: int = 2,
    fan_out: str | FanOut | None = None,
    explode: Callable[[dict[str, Any]], Any] | None = None,
    schema: T.StructType | str | None = None,
    retries: int = 1,
    staging: str | None = None,
    on_wave: Callable[[Wave], None] | None = None,
) -> Bounded:
    """Pass `df` through `expand` in waves of `batch` rows, with at most `in_flight` waves at a time.

    `expand` is any function from a DataFrame to a DataFrame, or to another `bounded` step. It is called once
    for each wave, by one thread at a time; the jobs of the waves run at the same time. Nothing runs
    until you iterate over the result, which gives Arrow tables, or call `count()` or `to(sink)`.

    `fan_out` names a column that says how many rows each row becomes; `batch` then counts output
    rows. `hg.FanOut("n", "lo", "hi")` also allows a row's outputs to be divided between waves,
    which makes the bound hard: `expand` then makes outputs lo to hi of each row.

    `explode` is a function from a row (a dict) to an iterator of tuples of the given `schema`. The
    gate draws rows from these iterators and suspends them between waves; `batch` counts the rows
    drawn. `expand`, if it is given, is applied to them.

    `batch="auto"` finds a size at which the fixed cost of a wave no longer matters. `staging` is a
    folder that all executors can reach; on a local master it defaults to a temporary folder.
    """
    check_classic(df.sparkSession, "hg.bounded", "")
    gate = Gate(in_flight=in_flight, batch=batch)
    lazy = LazyExplode.checked(explode, schema) if explode is not None else None
    if lazy is not None and fan_out is not None:
        raise ConfigError("explode counts the rows as it makes them; omit fan_out")
    if expand is None and lazy is None:
        raise ConfigError("give expand, a function from a DataFrame to a DataFrame, or explode")
    if expand is not None and not callable(expand):
        raise ConfigError(f"expand={expand!r} must be a function from a DataFrame to a DataFrame")
    if retries < 0:
        raise ConfigError(f"retries={retries} cannot be negative")
    if staging is None and not df.sparkSession.sparkContext.master.startswith("local"):
        raise ConfigError('give staging="...": a folder that all executors can read and write')
    counted = FanOut.of(fan_out)
    return Bounded(df, expand or (lambda rows: rows), gate, counted, lazy, retries, staging, on_wave)


@dataclass(frozen=True)
class Bounded:
    """A step under a gate, ready to run. Each run starts from the beginning."""

    df: DataFrame
    expand: Expand
    gate: Gate
    fan_out: FanOut | None
    explode: LazyExplode | None
    retries: int
    staging: str | None
    on_wave: Callable[[Wave], None] | None

    def __iter__(self) -> Iterator[pa.Table]:
        """The results, one wave at a time, as waves finish. A wave stays in flight
        until its result has been taken.
        """
        results: Queue[pa.Table | None] = Queue(1)

        def offer(result: pa.Table | None) -> None:
            while not run.stopped:
                with suppress(Full):
                    results.put(result, timeout=0.1)
                    return

        run = BoundedRun(self.df, lambda frame, _: frame.toArrow(), offer)

        def work() -> None:
            with suppress(BaseException):  # kept in `run.failure`
                self._flow(run, ())
            offer(None)

        worker = threading.Thread(target=work, name="headgate-bounded", daemon=True)
        worker.start()
        try:
            while (result := _next(results, run)) is not None:
                if result.num_rows:
                    yield result
            if run.failure is not None:
                raise run.failure
        finally:
            run.cancel()
            worker.join()

    def count(self) -> int:
        """Run the step and count its output rows."""
        counts: list[int] = []
        self._run(lambda frame, _: frame.count(), counts.append)
        return sum(counts)

    def to(self, sink: sinks.Sink | str | Callable[[DataFrame, int], None]) -> RunSummary:
        """Publish the results wave by wave: to a sink, a new Parquet folder, or a
        function (DataFrame, wave number).

        If a wave fails, the results of earlier waves stay published; the error says so.
        """
        target = sinks.as_sink(sinks.Parquet(sink) if isinstance(sink, str) else sink)
        if isinstance(target, sinks.Parquet) and target.occupied():
            raise ConfigError(f"{target.path} has batches already; name a new folder, or remove this one")
        run = f"hg.bounded/{unique()}"
        owner = Owner(run, run)
        target.own(owner)
        with self._folder("output") as folder:
            staged = target.staging(folder)
            numbers = count()

            def write(frame: DataFrame, wave: str) -> tuple[str, T.StructType]:
                frame.write.parquet(f"{staged.url}/{wave}")
                return wave, frame.schema

            def publish(written: tuple[str, T.StructType]) -> None:
                wave, schema = written
                names = [f"{wave}/{n}" for n in staged.names(wave) if n.endswith(".parquet")]
                files = tuple(Written(name, staged.size(name) or 0, "") for name in names)
                number = next(numbers)
                try:
                    columns = to_arrow_schema(schema)
                    if number == 0:  # a table is made once its columns are known
                        target.check_columns(columns)
                        target.own(owner)
                    target.publish(Output(number, staged, files, columns, SparkEngine(), owner=owner))
                except HeadgateError:
                    raise
                except Exception as error:
                    raise SinkFailed(
                        f"{target!r} could not take the result of wave {number}: {type(error).__name__}: {error}. "
                        f"It has the results of the {number} waves before it"
                    ) from error
                staged.remove(wave)

            return self._run(write, publish)

    def _run(self, finish: Callable[[DataFrame, str], Any], emit: Callable[[Any], None]) -> RunSummary:
        run = BoundedRun(self.df, finish, emit)
        try:
            self._flow(run, ())
        except Cancelled:
            raise run.failure or KeyboardInterrupt from None
        finally:
            run.cancel()
        return run.summary

    @contextmanager
    def _folder(self, name: str) -> Iterator[Store]:
        """A folder that is removed at the end of the block."""
        if self.staging is None:
            path = tempfile.mkdtemp(prefix="headgate-bounded-")
            try:
                yield Store(path, durable=False).child(name)
            finally:
                shutil.rmtree(path, ignore_errors=True)
            return
        store = Store(self.staging, durable=False).child(uuid.uuid4().hex)
        try:
            yield store.child(name)
        finally:
            store.remove("")

    # -- one run

    def _flow(self, run: BoundedRun, outer: Stamp) -> None:
        """Run everything that belongs to one outer stamp from the caller's thread; each wave
        is a job in a thread of its own.
        """
        cores = run.context.defaultParallelism
        with self._folder("input") as folder, run.named(f"input of wave {outer}" if outer else "input"):
            try:
                staged = StagedRows.write(self.df, folder, self.fan_out)
            except HeadgateError:
                raise
            except Exception as error:
                run.check()
                raise WaveFailed(f"the input of the gate could not be computed: {gist(error)}") from error
            _StampRun(self, run, outer, staged, cores).work()


class _StampRun:
    """The waves of one outer stamp: the rows that wait before the gate, and the waves in flight."""

    def __init__(self, step: Bounded, run: BoundedRun, outer: Stamp, staged: StagedRows, cores: int) -> None:
        self._step, self._run, self._outer, self._staged = step, run, outer, staged
        self._fixed = None if step.gate.batch == AUTO else step.gate.size
        self._gated = GatedRanges(self._sized, whole_files(staged.lengths), spread=cores, outer=outer)
        self._total, self._finished = sum(staged.lengths), 0

    def _sized(self) -> Gate:
        return replace(self._step.gate, batch=self._fixed or self._run.sizes[len(self._outer)].batch)

    def work(self) -> None:
        """Run until every wave has finished, or one has failed after its retries."""
        running: dict[Future[tuple[list[RowRange], float]], RangeWave] = {}
        pool = ThreadPoolExecutor(self._step.gate.in_flight, "headgate-wave")
        try:
            while True:
                for wave in self._gated.admit():
                    self._entered(wave)
                    running[pool.submit(self._wave, wave)] = wave
                if not running:
                    break
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    left, seconds = future.result()
                    self._through(running.pop(future), left, seconds)
        except BaseException as error:
            self._run.cancel(error)
            raise
        finally:
            pool.shutdown(wait=True)

    def _entered(self, wave: RangeWave) -> None:
        summary = self._run.summary
        summary.most_in_flight = max(summary.most_in_flight, self._gated.inside)
        if not self._outer:
            summary.batch = wave.size

    def _through(self, wave: RangeWave, left: list[RowRange], seconds: float) -> None:
        self._gated.done(wave)
        self._gated.give_back(left)
        done = wave.rows - sum(map(len, left))
        self._finished += done
        with self._run.lock:
            sizes = self._run.sizes
            sizes[len(self._outer)] = sizes[len(self._outer)].after(wave.rows, seconds)
            self._run.summary.waves += 1
            self._run.summary.rows += done
        if self._step.on_wave is not None:
            self._step.on_wave(Wave(wave.stamp, done, seconds, self._finished / self._total))

    def _wave(self, wave: RangeWave) -> tuple[list[RowRange], float]:
        """Run one wave; return the unfinished parts of its ranges, and the seconds it took."""
        run, started = self._run, time.perf_counter()
        with run.named(f"wave {wave.stamp}"):
            for attempt in range(self._step.retries + 1):
                run.check()
                try:
                    left = self._attempt(wave)
                    break
                except (HeadgateError, Cancelled):
                    raise
                except Exception as error:
                    run.check()
                    if attempt == self._step.retries:
                        raise WaveFailed(
                            f"wave {wave.stamp} failed {attempt + 1} times and emitted nothing: {gist(error)}"
                        ) from error
                    log.warning("wave %s failed and is retried: %s", wave.stamp, gist(error))
                    with run.lock:
                        run.summary.retried += 1
        return left, time.perf_counter() - started

    def _attempt(self, wave: RangeWave) -> list[RowRange]:
        run, step = self._run, self._step
        name = f"{run.tag}{self._outer}"
        rows, left = taken(self._staged, wave, step.explode, name, in_order=False)
        try:
            with run.expanding:
                expanded = step.expand(rows)
        except Exception as error:
            raise WaveFailed(f"wave {wave.stamp}: expand raised {type(error).__name__}: {error}") from error
        if isinstance(expanded, Bounded):
            expanded._flow(run, wave.stamp)
        elif isinstance(expanded, DataFrame):
            run.deliver(expanded, wave.stamp)
        else:
            raise WaveFailed(
                f"wave {wave.stamp}: expand returned {type(expanded).__name__}; it must return a DataFrame or hg.bounded(...)"
            )
        return left()


def _next(results: Queue[pa.Table | None], run: BoundedRun) -> pa.Table | None:
    while True:
        try:
            return results.get(timeout=0.5)
        except Empty:
            if run.stopped:
                return None
