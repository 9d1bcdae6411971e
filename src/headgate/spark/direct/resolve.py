"""A direct stream with its columns known: which steps are columnar, and which way its rows take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headgate.errors import ConfigError
from headgate.sources.source import Source
from headgate.spark.direct.engine import DirectEngine, check_key
from headgate.spark.direct.following import StageOutput
from headgate.spark.direct.spark_rows import SparkReader, SparkStep, columns_of, frame_of, mapped
from headgate.spark.direct.step_checks import (
    check_deterministic,
    check_names,
    check_pickles,
    check_rounding,
    check_table,
)
from headgate.spark.direct.stream import Expand, SparkOnly, StageSpec, Stream, Written, chain
from headgate.spark.engine import SparkEngine
from headgate.spark.gates.expansion_step import checked_step
from headgate.spark.gates.waves import whole
from headgate.spark.job_names import JobNames
from headgate.spark.session import is_connect
from headgate.stage.engine import Engine
from headgate.stage.settings import Expansion
from headgate.stage.shaping import Shaping
from headgate.state.keys import KeySpec
from headgate.storage.store import Store
from headgate.streams.drive import source_folder
from headgate.streams.planned import Input, Planned
from headgate.streams.side import SideStep
from headgate.streams.sql_step import NotColumnar, Select, Where
from headgate.streams.step import Step

UNKNOWN_TASKS = 4
"""How many map tasks to make if nobody can say how many cores there are (Spark Connect)."""


@dataclass
class ResolvedInput:
    """One input: the columnar part, then steps that only Spark can do."""

    input: Input
    frames: list[SparkStep]
    schema: pa.Schema
    lines: list[str]
    """What `explain` says of each step."""
    expansions: list[Expansion] = field(default_factory=list)
    transformed: bool = False
    """Whether a function of the user on DataFrames is among the steps."""


@dataclass
class ResolvedStage:
    """A stage: where its rows come from, and how they get there."""

    spec: StageSpec
    inputs: list[ResolvedInput]
    engine: Engine[Any]
    rows_of: Callable[[Planned], Any]
    output: pa.Schema
    """The columns that its operator emits."""
    combined: bool

    @property
    def columnar(self) -> bool:
        """Whether rows stay columnar all the way."""
        return isinstance(self.engine, DirectEngine)

    def text(self, number: int) -> str:
        """The stage in words."""
        lines = [line for resolved in self.inputs for line in resolved.lines]
        way = "rows stay columnar" if self.columnar else "rows take Spark's row path"
        combined = ", combined in the map tasks" if self.combined else ""
        key = ", ".join(self.spec.key)
        lines.append(f"stage {number}: {self.spec.operator!r} by {key}; {way}{combined}")
        return "\n".join(lines)


@dataclass
class Resolved:
    """A whole stream."""

    stages: list[ResolvedStage]
    tasks: int
    shaping: Shaping | None = None
    """The steps after the last operator."""
    last_lines: tuple[str, ...] = ()

    @property
    def output(self) -> pa.Schema:
        """The columns that the sink gets."""
        return self.stages[-1].output if self.shaping is None else self.shaping.schema

    def text(self) -> str:
        """The stream in words."""
        lines = [stage.text(number) for number, stage in enumerate(self.stages)]
        return "\n".join([*lines, *self.last_lines])


def resolved(written: Written, checkpoint: str | None = None) -> Resolved:
    """Check a stream against the columns of its sources. With a checkpoint, a source may take from it what
    it has learnt in an earlier run.
    """
    tasks = parallelism(written.spark)
    stages: list[ResolvedStage] = []
    specs = chain(written.stream)
    store = None if checkpoint is None else Store(stage_folder(checkpoint, 0, len(specs)))
    for spec in specs:
        before = stages[-1].output if stages else None
        stages.append(_stage(written.spark, spec, before, tasks, store))
    if not written.stream.steps:
        return Resolved(stages, tasks)
    last = _input(written.spark, written.stream, stages[-1].output, tasks, None)
    if last.frames or last.expansions:
        raise ConfigError(
            "after the last operator only columnar steps can follow, and here: "
            + "; ".join(line.strip() for line in last.lines[1:])
            + ". Write to a function (DataFrame, batch_id), and do it there"
        )
    steps = tuple(step.apply for step in last.input.steps)
    return Resolved(stages, tasks, Shaping(steps, last.schema), tuple(last.lines[1:]))


def stage_folder(checkpoint: str, number: int, count: int) -> str:
    """The checkpoint of a stage: one alone has the query's for itself, several have a part each."""
    return checkpoint if count == 1 else str(Store(checkpoint).child(f"stage-{number}").url)


def parallelism(spark: SparkSession) -> int:
    """How many tasks can run at a time."""
    return UNKNOWN_TASKS if is_connect(spark) else max(1, spark.sparkContext.defaultParallelism)


def _stage(
    spark: SparkSession, spec: StageSpec, before: pa.Schema | None, tasks: int, store: Store | None
) -> ResolvedStage:
    inputs = []
    for number, stream in enumerate(spec.inputs):
        records = None if store is None else store.child(source_folder(number))
        inputs.append(_input(spark, stream, before, tasks, records))
    if spec.times is not None:
        _set_sides(spec, spec.times, inputs)
    one = inputs[0]
    on_frames = any(i.frames or i.expansions or isinstance(i.input.source, SparkReader) for i in inputs)
    check_key(one.schema, spec.key)
    operator = spec.operator
    build = operator.build_side()
    if build is not None:
        check_table(build, operator.build_keys(spec.key))
        operator = operator.with_build_columns(SparkEngine(spark=spark).columns(build, ()))
    bound = operator.bind(KeySpec(spec.key, tuple(one.schema.field(n).type for n in spec.key)), one.schema)
    if not on_frames:
        engine = DirectEngine(spark, tasks)
        combined = engine.prepared(bound) is not bound
        return ResolvedStage(spec, inputs, engine, lambda planned: planned, bound.output, combined)

    def rows_of(planned: Planned) -> DataFrame:
        rows = frame_of(spark, planned, tasks)
        for step in one.frames:
            rows = step(rows)
        return rows

    by_frames = SparkEngine(spark=spark, names=JobNames(spark))
    return ResolvedStage(spec, inputs, by_frames, rows_of, bound.output, combined=False)


def _set_sides(spec: StageSpec, times: tuple[str, str], inputs: list[ResolvedInput]) -> None:
    """Make the two inputs of a join one stream."""
    for resolved_input in inputs:
        if (
            resolved_input.frames
            or resolved_input.expansions
            or isinstance(resolved_input.input.source, SparkReader)
        ):
            raise ConfigError(
                "a join of two direct streams needs columnar steps on both sides, and here: "
                + "; ".join(resolved_input.lines)
                + ". Write the transformed rows to a folder first, or join with hg.two_streams and foreachBatch"
            )
    sides = (inputs[0].schema, inputs[1].schema)
    for side, resolved_input in enumerate(inputs):
        step = SideStep(side, spec.key, times, sides)
        given = resolved_input.input
        resolved_input.input = Input(given.source, (*given.steps, step))
        resolved_input.schema = step.schema


def _input(
    spark: SparkSession, stream: Stream, before: pa.Schema | None, tasks: int, records: Store | None
) -> ResolvedInput:
    """Bind the steps of an input in order; from the first that is not columnar on, Spark does them."""
    if isinstance(stream.source, Source):
        source = stream.source.fresh()  # it may be the input twice, or of several queries
        if records is not None:
            source.recall(records)
    else:
        assert before is not None
        source = StageOutput(before)
    found = ResolvedInput(Input(source), [], source.schema(), [f"source: {source!r}"])
    for position, step in enumerate(stream.steps):
        if found.expansions and not isinstance(step, Expand):
            raise ConfigError(
                f"{stream.steps[position - 1]!r}: only another expand, or key_by, can follow it; do {step!r} in its function"
            )
        if isinstance(step, Expand):
            if step.expansion.gate is not None and is_connect(spark):
                raise ConfigError(
                    f"{step!r}: a gate needs a classic Spark session, and this one uses Spark Connect"
                )
            found.expansions.append(replace(step.expansion, step=checked_step(step.expansion.step)))
            gate = "" if step.expansion.gate is None else ", behind a gate"
            nested = " inside that one" if gate and len(found.expansions) > 1 else ""
            found.lines.append(f"  {step!r}: by Spark{gate}{nested}")
            found.schema = _expanded(spark, found, repr(step), tasks)
        elif isinstance(step, SparkOnly):
            found.transformed = True
            _on_spark(
                spark,
                found,
                checked_step(step.function) or step.function,
                repr(step),
                "a DataFrame function",
                tasks,
            )
        else:
            _bind(spark, found, step, tasks)
    check_pickles(found.input)
    return found


def _bind(spark: SparkSession, found: ResolvedInput, step: Step, tasks: int) -> None:
    ansi, zone = _conf(spark, "spark.sql.ansi.enabled") != "false", _conf(spark, "spark.sql.session.timeZone")
    if isinstance(step, Where):
        step = Where(step.text, ansi=ansi, zone=zone)
    elif isinstance(step, Select):
        step = Select(*step.texts, ansi=ansi, zone=zone)
    try:
        if isinstance(step, (Where, Select)) and _conf(spark, "spark.sql.caseSensitive") == "true":
            raise NotColumnar("names are case-sensitive in this session")
        if ansi and isinstance(step, (Where, Select)):
            check_rounding(spark, [step.text] if isinstance(step, Where) else step.texts)
        bound = step.bind(found.schema)
    except NotColumnar as why:
        assert isinstance(step, (Where, Select))
        rows = _on_spark(spark, found, _native(step), repr(step), str(why), tasks)
        if not found.transformed:  # otherwise it may be the user's own function
            check_deterministic(rows, repr(step))
        return
    if found.frames or isinstance(found.input.source, SparkReader):
        check_pickles(Input(found.input.source, (bound,)))
        native = _native(step) if isinstance(step, (Where, Select)) else mapped(bound, found.schema)
        _on_spark(spark, found, native, repr(step), "an earlier step is Spark's", tasks)
        return
    found.input = Input(found.input.source, (*found.input.steps, bound))
    found.schema = bound.schema
    found.lines.append(f"  {step!r}: columnar")


def _native(step: Where | Select) -> SparkStep:
    if isinstance(step, Where):
        return lambda df: df.where(step.text)
    return lambda df: df.selectExpr(*step.items)


def _on_spark(
    spark: SparkSession, found: ResolvedInput, function: SparkStep, name: str, why: str, tasks: int
) -> DataFrame:
    found.frames.append(function)
    found.lines.append(f"  {name}: by Spark, on rows ({why})")
    rows = _nothing(spark, found, tasks)
    check_names(rows.columns, name)
    found.schema = columns_of(rows)
    return rows


def _nothing(spark: SparkSession, found: ResolvedInput, tasks: int) -> DataFrame:
    rows = frame_of(spark, Planned(found.input.schema, (found.input,)), tasks)
    for step in found.frames:
        try:
            rows = step(rows)
            _ = rows.schema
        except ConfigError:
            raise
        except Exception as error:
            first = str(error).strip().splitlines()[0]
            raise ConfigError(f"{found.lines[-1].strip()}: Spark refuses it: {first}") from error
    return rows


def _expanded(spark: SparkSession, found: ResolvedInput, name: str, tasks: int) -> pa.Schema:
    rows = _nothing(spark, found, tasks)
    for expansion in found.expansions:
        rows = whole(rows, expansion)
        rows = rows if expansion.step is None else expansion.step(rows)
    check_names(rows.columns, name)
    return columns_of(rows)


def _conf(spark: SparkSession, name: str) -> str:
    return str(spark.conf.get(name))
