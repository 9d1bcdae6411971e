"""Event logs made by hand, in the shape that Spark writes."""

import json

SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
QUERY = "11111111-2222-3333-4444-555555555555"
START: list[dict] = [
    {"Event": "SparkListenerLogStart", "Spark Version": "4.1.0"},
    {
        "Event": "SparkListenerEnvironmentUpdate",
        "Spark Properties": {"spark.master": "local[4]", "spark.app.name": "orders"},
    },
    {"Event": "SparkListenerApplicationStart", "App Name": "orders", "App ID": "local-1", "Timestamp": 0},
]
END: dict = {"Event": "SparkListenerApplicationEnd", "Timestamp": 99}


def plan(
    batch: int, node: str = "StateStoreSave", text: str = "StateStoreSave [user#1L], state info ["
) -> dict:
    metrics = [
        {"name": "number of total state rows", "accumulatorId": 100 * batch + 1, "metricType": "sum"},
        {"name": "number of updated state rows", "accumulatorId": 100 * batch + 2, "metricType": "sum"},
        {"name": "time to commit changes", "accumulatorId": 100 * batch + 3, "metricType": "timing"},
    ]
    scan = {"nodeName": "Scan parquet", "simpleString": "scan", "children": [], "metrics": []}
    root = {"nodeName": node, "simpleString": text, "children": [scan], "metrics": metrics}
    return {"Event": SQL, "executionId": batch, "sparkPlanInfo": root}


def stage(number: int, batch: int) -> dict:
    properties = {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": str(batch)}
    return {
        "Event": "SparkListenerStageSubmitted",
        "Stage Info": {"Stage ID": number, "Stage Attempt ID": 0},
        "Properties": properties,
    }


def task(number: int, batch: int, partition: int, *, rows: int, ms: int, state: int = 0, at: int = 0) -> dict:
    """A task that ends `ms` after `at`. With state it runs the stateful operator of the batch's plan."""
    updates = [{"ID": 100 * batch + i, "Update": str(v)} for i, v in ((1, state), (2, state), (3, 1))]
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": number,
        "Task End Reason": {"Reason": "Success"},
        "Task Info": {
            "Index": partition, "Partition ID": partition, "Launch Time": at, "Finish Time": at + ms,
            "Accumulables": updates if state else [],
        },
        "Task Metrics": {
            "Executor Run Time": ms,
            "Executor CPU Time": 1_000_000 * ms,
            "Shuffle Read Metrics": {"Total Records Read": rows, "Fetch Wait Time": 0},
            "Shuffle Write Metrics": {"Shuffle Write Time": 0, "Shuffle Records Written": 0},
        },
    }  # fmt: skip


def progress(
    batch: int, *, rows: int, ms: int, operator: str = "stateStoreSave", updated: int = 10, at: int = 0
) -> dict:
    operators = (
        [{"operatorName": operator, "numRowsTotal": 50, "numRowsUpdated": updated}] if operator else []
    )
    return {
        "Event": PROGRESS,
        "progress": {
            "id": QUERY, "name": "orders", "batchId": batch, "timestamp": f"2026-01-01T00:00:{at or batch:02d}.000Z",
            "durationMs": {"triggerExecution": ms, "queryPlanning": 20, "walCommit": 10},
            "stateOperators": operators,
            "sources": [{"description": "FileStreamSource[file:/in]", "numInputRows": rows}],
        },
    }  # fmt: skip


def log(loads: list[list[int]], *, ended: bool = True, period_s: int = 1, **kind: str) -> list[dict]:
    """A log with one batch for each list of rows by partition; a row takes 1 ms, and a batch begins every `period_s`."""
    events = list(START)
    for batch, rows in enumerate(loads):
        longest = max(rows)
        at = batch * period_s * 1000
        events += [plan(batch, **kind), stage(batch, batch)]
        events += [
            task(batch, batch, partition, rows=count, ms=count, state=count + 1, at=at)
            for partition, count in enumerate(rows)
        ]
        events.append(progress(batch, rows=sum(rows), ms=longest + 50, at=batch * period_s))
    return [*events, END] if ended else events


def lines(events: list[dict]) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]
