"""From the events of a log to an `Application`: one pass, in any order of unrelated events."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.doctor.application import Application, Batch, Metric, Query, Stage, StateOperator, Task
from headgate.errors import ConfigError

_STREAMING = "org.apache.spark.sql.streaming.StreamingQueryListener$"
_SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQL"
_TO_MS = {"nsTiming": 1e-6}
Json = Mapping[str, Any]


@dataclass(frozen=True)
class _Node:
    """A metric's place: the node, its text, the metric's name and what turns it into ms."""

    name: str
    text: str
    metric: str
    scale: float


@dataclass
class _Seen:
    """What was read so far."""

    start: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    conf: dict[str, Any] = field(default_factory=dict)
    cores: dict[str, int] = field(default_factory=dict)
    nodes: dict[int, _Node] = field(default_factory=dict)
    batch_of: dict[int, tuple[str, int]] = field(default_factory=dict)
    tasks: dict[int, dict[int, Task]] = field(default_factory=dict)
    touched: dict[int, dict[str, str]] = field(default_factory=dict)
    progress: dict[tuple[str, int], Json] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    ended: bool = False
    other_jobs: int = 0
    events: int = 0
    damaged: int = 0


def read_events(lines: Iterable[bytes], where: str) -> Application:
    """Read all lines. Raises `ConfigError` if they are not those of an event log."""
    seen = _Seen()
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
            name = event["Event"]
        except (ValueError, KeyError, TypeError):
            if number == 0:
                raise ConfigError(
                    f"{where} is not an event log of Spark: its first line is {line[:60]!r}. Give a file of the "
                    "folder that spark.eventLog.dir names, or a folder that hg.doctor.record wrote"
                ) from None
            seen.damaged += 1
            continue
        seen.events += 1
        try:
            _take(seen, str(name), event)
        except (KeyError, TypeError, ValueError):  # an event of another version of Spark
            seen.damaged += 1
    if not seen.events:
        raise ConfigError(
            f"{where} is empty: the application has not written anything yet, or its log was lost"
        )
    return _application(seen)


def _take(seen: _Seen, name: str, event: Json) -> None:
    match name.removeprefix(_STREAMING).removeprefix(_SQL):
        case "SparkListenerLogStart":
            seen.version = event.get("Spark Version", "")
        case "SparkListenerApplicationStart":
            seen.start = dict(event)
        case "SparkListenerEnvironmentUpdate":
            seen.conf |= event.get("Spark Properties", {})
        case "headgate.Session":
            seen.start, seen.version = dict(event), event.get("Spark Version", "")
            seen.conf |= event.get("Spark Properties", {})
            if event.get("Cores"):
                seen.cores["session"] = int(event["Cores"])
        case "SparkListenerExecutorAdded":
            seen.cores.pop("session", None)
            seen.cores[event["Executor ID"]] = int(event["Executor Info"]["Total Cores"])
        case "SparkListenerExecutorRemoved":
            if len(seen.cores) > 1:
                seen.cores.pop(event["Executor ID"], None)
        case "ExecutionStart" | "AdaptiveExecutionUpdate":
            _take_plan(seen, event["sparkPlanInfo"])
        case "SparkListenerJobStart":
            seen.other_jobs += _batch_key(event.get("Properties") or {}) is None
        case "SparkListenerStageSubmitted":
            key = _batch_key(event.get("Properties") or {})
            if key is not None:
                seen.batch_of[int(event["Stage Info"]["Stage ID"])] = key
        case "SparkListenerTaskEnd":
            _take_task(seen, event)
        case "QueryStartedEvent":
            seen.names[str(event["id"])] = event.get("name") or ""
        case "QueryProgressEvent":
            progress = event["progress"]
            progress = json.loads(progress) if isinstance(progress, str) else progress
            seen.progress[str(progress["id"]), int(progress["batchId"])] = progress
            seen.names[str(progress["id"])] = progress.get("name") or seen.names.get(str(progress["id"]), "")
        case "SparkListenerApplicationEnd":
            seen.ended = True


def _batch_key(properties: Json) -> tuple[str, int] | None:
    query, batch = properties.get("sql.streaming.queryId"), properties.get("streaming.sql.batchId")
    return None if query is None or batch is None else (query, int(batch))


def _take_plan(seen: _Seen, plan: Json) -> None:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        for metric in node.get("metrics", ()):
            scale = _TO_MS.get(metric.get("metricType", ""), 1.0)
            place = _Node(node["nodeName"], node.get("simpleString", ""), metric["name"], scale)
            seen.nodes[int(metric["accumulatorId"])] = place
        waiting += node.get("children", ())


def _take_task(seen: _Seen, event: Json) -> None:
    if event.get("Task End Reason", {}).get("Reason") != "Success":
        return
    info, measured = event["Task Info"], event.get("Task Metrics") or {}
    stage, metrics = int(event["Stage ID"]), dict[Metric, float]()
    for update in info.get("Accumulables", ()):
        node = seen.nodes.get(int(update["ID"]))
        if node is not None and (value := _number(update.get("Update"))) is not None:
            key = (node.name, node.metric)
            metrics[key] = metrics.get(key, 0.0) + max(0.0, value) * node.scale
            seen.touched.setdefault(stage, {})[node.name] = node.text
    read, wrote = measured.get("Shuffle Read Metrics", {}), measured.get("Shuffle Write Metrics", {})
    launch, finish = float(info["Launch Time"]), float(info["Finish Time"])
    run = float(measured.get("Executor Run Time", 0))
    partition = int(info.get("Partition ID", info.get("Index", 0)))
    task = Task(
        partition=partition if partition >= 0 else int(info["Index"]),
        launch=launch,
        finish=finish,
        run_ms=run,
        cpu_ms=measured.get("Executor CPU Time", 0) / 1e6,
        wait_ms=max(0.0, finish - launch - run),
        gc_ms=float(measured.get("JVM GC Time", 0)),
        input_rows=int(measured.get("Input Metrics", {}).get("Records Read", 0)),
        input_bytes=int(measured.get("Input Metrics", {}).get("Bytes Read", 0)),
        shuffled_rows=int(read.get("Total Records Read", 0)),
        shuffled_bytes=int(read.get("Remote Bytes Read", 0)) + int(read.get("Local Bytes Read", 0)),
        fetch_ms=float(read.get("Fetch Wait Time", 0)),
        write_ms=wrote.get("Shuffle Write Time", 0) / 1e6,
        written_rows=int(wrote.get("Shuffle Records Written", 0)),
        output_rows=int(measured.get("Output Metrics", {}).get("Records Written", 0)),
        metrics=metrics,
    )
    seen.tasks.setdefault(stage, {}).setdefault(task.partition, task)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _application(seen: _Seen) -> Application:
    stages: dict[tuple[str, int], list[Stage]] = {}
    for stage, key in sorted(seen.batch_of.items()):
        tasks = tuple(task for _, task in sorted(seen.tasks.get(stage, {}).items()))
        nodes = tuple(sorted(seen.touched.get(stage, {}).items()))
        stages.setdefault(key, []).append(Stage(stage, tasks, nodes))
    batches: dict[str, list[Batch]] = {}
    for key, progress in sorted(seen.progress.items()):
        batch = _batch(progress, tuple(stages.get(key, ())))
        if batch.rows:
            batches.setdefault(key[0], []).append(batch)
    queries = tuple(
        Query(query, seen.names.get(query, ""), tuple(mine)) for query, mine in sorted(batches.items())
    )
    return Application(
        id=seen.start.get("App ID", ""),
        name=seen.start.get("App Name", ""),
        spark=seen.version,
        cores=sum(seen.cores.values()) or _local_cores(seen.conf),
        conf=seen.conf,
        queries=queries,
        ended=seen.ended,
        batch_jobs=seen.other_jobs,
        damaged=seen.damaged,
    )


def _local_cores(conf: Json) -> int:
    """The cores of `local[N]`; 1 if nothing says."""
    inside = str(conf.get("spark.master", "")).partition("[")[2].partition("]")[0].partition(",")[0]
    return int(inside) if inside.isdecimal() else 1


def _batch(progress: Json, stages: tuple[Stage, ...]) -> Batch:
    sources = tuple(
        (str(source.get("description", "")), int(source.get("numInputRows") or 0))
        for source in progress.get("sources", ())
    )
    rows = progress.get("numInputRows")
    return Batch(
        number=int(progress["batchId"]),
        at=_time(progress.get("timestamp")),
        rows=int(rows) if rows is not None else sum(count for _, count in sources),
        durations={name: float(ms) for name, ms in (progress.get("durationMs") or {}).items()},
        operators=tuple(_operator(each) for each in progress.get("stateOperators", ())),
        sources=sources,
        stages=stages,
    )


def _time(text: Any) -> float:
    try:
        return dt.datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def _operator(each: Json) -> StateOperator:
    custom = {name: float(value) for name, value in (each.get("customMetrics") or {}).items()}
    return StateOperator(
        name=str(each.get("operatorName", "")),
        rows=int(each.get("numRowsTotal", 0)),
        updated=int(each.get("numRowsUpdated", 0)),
        removed=int(each.get("numRowsRemoved", 0)),
        memory=int(each.get("memoryUsedBytes", 0)),
        partitions=int(each.get("numShufflePartitions", 0)),
        update_ms=float(each.get("allUpdatesTimeMs", 0)),
        removal_ms=float(each.get("allRemovalsTimeMs", 0)),
        commit_ms=float(each.get("commitTimeMs", 0)),
        custom=custom,
    )
