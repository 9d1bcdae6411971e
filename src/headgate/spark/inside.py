"""What headgate uses of Spark's inside: interfaces that are private, experimental or not in every engine behind Connect.

No other file uses such an interface (`tests/test_spark_inside.py` looks for them). Each function here says which versions
have the interface, and what it does without it: another version of Spark may lack any of them, and a query must
run all the same.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import runpy
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from headgate.errors import ConfigError

Value = TypeVar("Value")
log = logging.getLogger("headgate.stage")

WORKER_DAEMON = "spark.python.daemon.module"
"""The setting that names the module of the daemon of Python workers. 4.1 to 4.3 have it; it is in no documentation. A Spark
that does not know it ignores it, and its workers start more slowly."""
EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"
EMPTY_RELATION_RULE = "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation"
"""The optimizer's rule that removes tasks without input. 4.1 to 4.3 have it; a name that is unknown is ignored. Where the
tasks are removed all the same, the batch fails and says which channels did not answer."""
_QUERY_ID = "sql.streaming.queryId"
_CONTEXT_LOGGER = "DataFrameQueryContextLogger"
_WAIT_MS = 2_000


def executor_count(spark: Any) -> int:
    """The number of executors, at least one (in local mode the driver is the executor).

    `SparkContext._jsc`, Java's status tracker: classic sessions of 4.1 to 4.3. Without it: one executor. Channels then run
    anywhere, and a channel that changes its executor reads its state again.
    """
    infos = _or_none(lambda: spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos())
    return 1 if infos is None else max(1, len(infos) - 1)


def executor_ids(spark: Any) -> tuple[str, ...]:
    """Spark's ids of the executors. Only for a session that has several: others log a warning.

    `SparkContext._jsc`, `getExecutorIds`: classic sessions of 4.1 to 4.3. Without them: none are known.
    """
    listed = _or_none(lambda: str(spark.sparkContext._jsc.sc().getExecutorIds().mkString(",")))
    return tuple(sorted(listed.split(","))) if listed else ()


def executor_locations(spark: Any, ids: Sequence[str]) -> tuple[str, ...]:
    """The names that Spark gives to executors as preferred places of tasks, in the order of their ids; empty if one is unknown.

    `SparkContext._jsc`, `statusStore`: classic sessions of 4.1 to 4.3. Without them: none are known.
    """

    def found() -> dict[str, str]:
        listed = spark.sparkContext._jsc.sc().statusStore().executorList(True)
        every = (listed.apply(number) for number in range(listed.size()))
        return {one.id(): f"executor_{one.hostPort().rpartition(':')[0]}_{one.id()}" for one in every}

    known = _or_none(found) or {}
    return tuple(known[one] for one in ids) if all(one in known for one in ids) else ()


def placed_rows(spark: Any, pattern: Any, locations: Sequence[str]) -> Any:
    """A DataFrame like `pattern`, which has one column of int and as many partitions as there are locations: partition n has
    the row n, and prefers location n. It is partitioned as the pattern, and neither runs a job.

    `SparkContext.makeRDD` with locations, `LogicalRDD.fromDataset`: classic sessions of 4.1 to 4.3. Without them: None.
    """

    def made() -> Any:
        jvm, context = spark._jvm, spark.sparkContext._jsc.sc()
        listed, catalyst = jvm.org.apache.spark.api.python.PythonUtils.toSeq, "org.apache.spark.sql."
        rows = [
            jvm.scala.Tuple2(jvm.org.apache.spark.sql.catalyst.InternalRow.fromSeq(listed([n])), listed([at]))
            for n, at in enumerate(locations)
        ]
        kept = context.makeRDD(listed(rows), jvm.scala.reflect.ClassTag.Any())
        frames, plans = (
            _module(jvm, f"{catalyst}execution.LogicalRDD"),
            _module(jvm, f"{catalyst}classic.Dataset"),
        )
        frame = pattern._jdf
        more = [frames.__getattr__("fromDataset$default$4")()] if _arity(frames, "fromDataset") == 4 else []
        plan = frames.fromDataset(kept, frame, False, *more)
        return type(pattern)(plans.ofRows(frame.sparkSession(), plan), spark)

    return _or_none(made)


def _module(jvm: Any, name: str) -> Any:
    """An object of Scala."""
    return jvm.java.lang.Class.forName(f"{name}$").getField("MODULE$").get(None)


def _arity(module: Any, method: str) -> int:
    """How many parameters a method has."""
    return next(
        (len(one.getParameterTypes()) for one in module.getClass().getMethods() if one.getName() == method), 0
    )


def jvm_lives(spark: Any) -> bool:
    """Whether the JVM that this process started still runs.

    `SparkContext._gateway.proc`: classic sessions of 4.1 to 4.3. Without it: it is taken to run, and jobs fail if it does not.
    """
    return _or_none(lambda: spark.sparkContext._gateway.proc.poll() is None) is not False


def shuffle_writes(spark: Any, group: str) -> tuple[int, int] | None:
    """The bytes and rows that the shuffles of a job group wrote, from Spark's status store, which is updated with a short
    delay.

    `SparkContext._jsc`, `listenerBus`, `statusStore`: classic sessions of 4.1 to 4.3. Without them: None, unknown.
    """

    def counted() -> tuple[int, int]:
        context = spark.sparkContext
        inner = context._jsc.sc()
        inner.listenerBus().waitUntilEmpty(_WAIT_MS)
        store, tracker = inner.statusStore(), context.statusTracker()
        infos = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [store.lastStageAttempt(stage) for info in infos if info for stage in info.stageIds]
        return sum(s.shuffleWriteBytes() for s in stages), sum(s.shuffleWriteRecords() for s in stages)

    return _or_none(counted)


def is_deterministic(rows: Any) -> bool | None:
    """Whether a DataFrame gives the same rows each time, as Spark's analysis says.

    `DataFrame._jdf`: classic sessions of 4.1 to 4.3. Without it: None, unknown. Names of Spark's own functions that are not
    deterministic are refused before this is asked.
    """
    answer = _or_none(lambda: rows._jdf.queryExecution().analyzed().deterministic())
    return None if answer is None else bool(answer)


def start_jvm(settings: dict[str, str], log_file: Path) -> None:
    """Start the JVM with its output in a file; the next session uses this JVM.

    `launch_gateway`, `SparkContext._ensure_initialized`: 4.1 to 4.3. Without them: nothing happens here. The session starts
    the JVM itself, and its output goes to the terminal.
    """
    from pyspark import SparkConf, SparkContext

    launch = _found("pyspark.java_gateway", "launch_gateway")
    initialize = getattr(SparkContext, "_ensure_initialized", None)
    if launch is None or initialize is None:
        log.info("this Spark has no way to send the output of its JVM to %s", log_file)
        return
    with log_file.open("ab") as sink:
        gateway = launch(SparkConf().setAll(list(settings.items())), {"stdout": sink, "stderr": sink})
        initialize(gateway=gateway)


def has_worker_daemon() -> bool:
    """Whether workers fork from a daemon whose module can be named (`WORKER_DAEMON`), as in 4.1 to 4.3. Without it the setting
    is left out: each worker imports headgate itself, which takes seconds.
    """
    return _found_module("pyspark.daemon")


def run_worker_daemon() -> None:
    """Be the daemon from which Spark's Python workers fork.

    `pyspark.daemon.manager`: 4.1 to 4.3. Without it: the module runs as Spark itself would run it.
    """
    manager = _found("pyspark.daemon", "manager")
    if manager is None:
        sys.modules.pop("pyspark.daemon", None)
        runpy.run_module("pyspark.daemon", run_name="__main__")
    else:
        manager()


def pickled(value: Any) -> bytes | None:
    """A function or source in the form in which Spark sends it to tasks; raises what pickling raises.

    `pyspark.cloudpickle`: 4.1 to 4.3. Without it: the package `cloudpickle` if it is installed, otherwise None, and what
    cannot be sent is noticed by the first batch.
    """
    dumps = _found("pyspark.cloudpickle", "dumps") or _found("cloudpickle", "dumps")
    return None if dumps is None else bytes(dumps(value))


def streaming_query_id(rows: Any) -> str | None:
    """The id of the streaming query that delivers a micro-batch, which Spark keeps in its checkpoint; None for a DataFrame
    that no streaming query delivers.

    The local property `sql.streaming.queryId`: classic sessions of 4.1 to 4.3. Without it: None. A checkpoint whose batches
    had an id then raises `CheckpointMismatch`, rather than taking rows that may be those of another query.
    """
    context = getattr(getattr(rows, "sparkSession", None), "sparkContext", None)
    return None if context is None else context.getLocalProperty(_QUERY_ID)


def quiet_query_errors() -> None:
    """Keep PySpark from logging errors that headgate reports itself. The logger's name: 4.1 to 4.3. Under another name the
    errors are logged twice.
    """
    logging.getLogger(_CONTEXT_LOGGER).setLevel(logging.CRITICAL)


def task_attempt() -> tuple[int | None, str]:
    """The partition of the task that runs this, and a name that no other attempt has.

    `TaskContext`: Spark 4.1 to 4.3; an engine of another kind behind Connect has none. Without it: the partition is
    None (the rows say which channel they belong to), and the name is random.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return None, uuid.uuid4().hex[:16]
    return context.partitionId(), str(context.taskAttemptId())


_places: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def can_place(spark: Any, *, tried: bool = False) -> bool:
    """Whether the engine can send a row to the partition that a column names. Only with `tried`, after a job has failed, it is
    asked; until then the answer is yes.

    `DataFrame.repartitionById`: Spark 4.1 to 4.3; not every engine behind Connect. Without it: rows of a channel come as a
    group (`headgate.spark.groups`).
    """
    if tried and spark not in _places:
        try:
            spark.range(0, 1, 1, 1).selectExpr("CAST(id AS INT) AS c").repartitionById(1, "c").collect()
            _places[spark] = True
        except Exception as error:
            log.info("this engine cannot send rows to a partition: %s", error)
            _places[spark] = False
    return _places.get(spark, True)


@contextmanager
def stage_name(spark: Any, name: str, *, building: bool = False) -> Iterator[None]:
    """Give the stages of jobs that this thread starts in the block a name in Spark's UI. With `building`, PySpark's own name for
    what is made in the block (`partitionBy at FILE:LINE`) is suppressed.

    The local property `callSite.short`, `SCCallSiteSync._spark_stack_depth`: classic sessions of 4.1 to 4.3. Without them: stages
    are named by the line of code that makes them.
    """
    sync: Any = _found("pyspark.traceback_utils", "SCCallSiteSync") if building else None
    suppresses = isinstance(getattr(sync, "_spark_stack_depth", None), int)
    spark.sparkContext.setLocalProperty("callSite.short", name)
    if suppresses:
        sync._spark_stack_depth += 1
    try:
        yield
    finally:
        if suppresses:
            sync._spark_stack_depth -= 1
        spark.sparkContext.setLocalProperty("callSite.short", None)


PROGRESS_EVENT = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
"""The name under which Spark's event log has the progress of a query; 4.1 to 4.3."""


def add_event_log(spark: Any, place: Path) -> Callable[[], None]:
    """Write Spark's event log to a folder from now on; the function that is returned ends it.

    The JVM's `EventLoggingListener`: classic sessions of 4.1 to 4.3. Without it: raises `ConfigError`, and says which settings
    the application can start with instead.
    """
    try:
        context, jvm = spark.sparkContext._jsc.sc(), spark._jvm
        conf = (
            context.conf().clone().set("spark.eventLog.rolling.enabled", "false")
            .set("spark.eventLog.overwrite", "true").set("spark.eventLog.compress", "false")
        )  # fmt: skip
        none = jvm.scala.Option.apply(None)
        listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
            context.applicationId(), none, jvm.java.net.URI(place.as_uri()), conf
        )
        listener.start()
        context.addSparkListener(listener)
    except Exception as error:
        raise ConfigError(
            f"this Spark has no event log that can be added while it runs ({type(error).__name__}): start the "
            "application with spark.eventLog.enabled=true and spark.eventLog.dir=..., and give that folder"
        ) from error

    def stop() -> None:
        context.listenerBus().waitUntilEmpty()
        context.removeSparkListener(listener)
        listener.stop()

    return stop


_rounding: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def checks_rounding(spark: Any) -> bool:
    """Whether `floor` and `ceil` raise an error for a number that no long can hold. Of 4.1 to 4.3 the last does and the first
    does not, so the session is asked, once. Without the check: Spark computes such steps, on rows.
    """
    if spark not in _rounding:
        try:
            spark.sql("SELECT floor(1e30D) AS f").collect()
            _rounding[spark] = False
        except Exception:
            _rounding[spark] = True
    return _rounding[spark]


def _or_none(call: Callable[[], Value]) -> Value | None:
    """What a call into the JVM returns; None if this Spark lacks an interface that it uses."""
    try:
        return call()
    except (AttributeError, TypeError) as error:
        missing: Exception = error
    except Exception as error:
        if type(error).__name__ != "Py4JError":  # a subclass of it means that the method exists, and failed
            raise
        missing = error
    log.info("this Spark lacks an interface that headgate would use: %s", missing)
    return None


def _found_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _found(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError:
        return None
