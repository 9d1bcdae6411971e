"""The steps of a port, for the operators that were found."""

from __future__ import annotations

from headgate.doctor.findings import Findings
from headgate.doctor.operators import KINDS, kind_of_operator

CHECK = (
    'compare the outputs of both before you switch, and start with .key_by(..., routing="static") if in doubt'
)


def porting_steps(found: Findings, operators: tuple[str, ...], source: str) -> list[str]:
    """What to write, in order. Empty if the query has no state."""
    stages = [(stage.kind, stage.key) for stage in found.stages]
    stages = stages or [(kind, ()) for name in operators if (kind := kind_of_operator(name))]
    if not stages:
        return []
    steps = [f"hg.read(spark){_reader(source)}"]
    if found.python_before_ms:
        steps.append(".map_batches(function) for the Python step before the key: pyarrow.Table in and out")
    for kind, key in stages:
        entry = KINDS[kind]
        names = ", ".join(f'"{name}"' for name in key) or '"..."'
        steps.append(f"{entry.native} becomes\n{entry.port.format(key=names)}\n({entry.note})")
    steps.append('.write(hg.sinks.Parquet("...")).start(checkpoint="...")')
    steps.append(CHECK)
    return steps


def _reader(source: str) -> str:
    """The reader for a source as Spark describes it.

    >>> _reader("FileStreamSource[file:/data/in]")
    '.files("/data/in", schema="...")'
    """
    inside = source.partition("[")[2].rpartition("]")[0]
    if source.startswith("FileStreamSource"):
        return f'.files("{inside.removeprefix("file:")}", schema="...")'
    if source.startswith("Kafka"):
        return '.kafka("host:9092", "topic", schema="...")'
    if source.startswith("Delta"):
        return f'.delta("{inside}")'
    if source.startswith("Rate"):
        return ".rate(rows_per_second=...)"
    return ".reader(plan, load, schema=..., name=...)"
