"""How a direct stream is written: a source, steps, a key, an operator, a sink. Values; nothing runs yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession

from headgate.control.policy import Policy
from headgate.errors import ConfigError
from headgate.flow.fan_out import FanOut
from headgate.flow.gate import Gate
from headgate.observe.events import Listener
from headgate.observe.export.announcer import Announcer
from headgate.operators.agg import Agg
from headgate.operators.aggregate import Aggregate
from headgate.operators.base import Operator
from headgate.operators.columns import column_names
from headgate.operators.dedup import Dedup
from headgate.operators.hash_join import HashJoin
from headgate.operators.history import HistoryWindow
from headgate.operators.stream_join import Join
from headgate.operators.topk import TopK
from headgate.operators.windows import Windows
from headgate.sources.source import Source
from headgate.stage import sinks
from headgate.stage.completion import Completed, checked_hook
from headgate.stage.settings import Expansion, Limits, Routing, checked_key, checked_operator
from headgate.streams.step import Step
from headgate.streams.steps import MapBatches

if TYPE_CHECKING:
    from headgate.spark.direct.query import Query


@dataclass(frozen=True)
class SparkOnly:
    """A step that is a function from a DataFrame to a DataFrame."""

    function: Callable[[DataFrame], DataFrame]

    def __repr__(self) -> str:
        return f"transform({getattr(self.function, '__name__', repr(self.function))})"


@dataclass(frozen=True)
class Expand:
    """A step that makes many rows of one, and the gate that bounds it."""

    expansion: Expansion

    def __repr__(self) -> str:
        function = self.expansion.step or self.expansion.explode
        gate = "" if self.expansion.gate is None else f", {self.expansion.gate!r}"
        return f"expand({getattr(function, '__name__', repr(function))}{gate})"


@dataclass(frozen=True)
class StageSpec:
    """A keyed operator and where its rows come from."""

    inputs: tuple[Stream, ...]
    key: tuple[str, ...]
    operator: Operator
    settings: dict[str, Any] = field(default_factory=dict)
    times: tuple[str, str] | None = None
    """For a join of two streams: the event-time column of each."""


@dataclass(frozen=True)
class Stream:
    """Rows of a source, or of an operator, after some steps. Every method returns another value and
    changes nothing; `start`, at the end, runs it.
    """

    spark: SparkSession
    source: Source | StageSpec
    steps: tuple[Step | SparkOnly | Expand, ...] = ()

    def _with(self, step: Step | SparkOnly | Expand) -> Stream:
        return Stream(self.spark, self.source, (*self.steps, step))

    def where(self, condition: str) -> Stream:
        """Keep the rows for which a condition in SQL is true, as `DataFrame.where` does."""
        from headgate.streams.sql_step import Where

        return self._with(Where(_text(condition, "where")))

    filter = where

    def select(self, *columns: str) -> Stream:
        """Columns and expressions in SQL, as in `DataFrame.selectExpr`: `select("user", "amount * 2 AS twice")`."""
        from headgate.streams.sql_step import Select

        return self._with(Select(*(_text(column, "select") for column in columns)))

    def map_batches(self, function: Callable[[pa.Table], Any], schema: Any = None) -> Stream:
        """Apply a function from a `pyarrow.Table` to another to parts of a batch. It must treat each row
        by itself: how rows are cut into tables is open. `schema` says what it returns (a
        `pyarrow.Schema`, or Spark's "user long, x double"); without it the function is called with
        no rows.
        """
        from headgate.spark.direct.read import as_schema

        return self._with(MapBatches(function, None if schema is None else as_schema(self.spark, schema)))

    def transform(self, function: Callable[[DataFrame], DataFrame]) -> Stream:
        """Apply any function from a DataFrame to a DataFrame. From here on rows take Spark's row path,
        which is slower; `explain()` says so.
        """
        if not callable(function):
            raise ConfigError(f"transform({function!r}) needs a function from a DataFrame to a DataFrame")
        return self._with(SparkOnly(function))

    def expand(
        self,
        function: Callable[[DataFrame], DataFrame] | None = None,
        gate: Gate | None = None,
        *,
        fan_out: str | FanOut | None = None,
        explode: Callable[[dict[str, Any]], Any] | None = None,
        schema: Any = None,
    ) -> Stream:
        """Apply a function that makes many rows of one, behind a gate (`hg.Gate`) that bounds how many of
        them exist at a time. `fan_out`, `explode` and `schema` are those of `hg.Expansion`.

        Only the key, or another `expand`, can follow: its gate is nested in this one.
        """
        if function is None and explode is None:
            raise ConfigError("expand() needs a function from a DataFrame to a DataFrame, or explode=...")
        if function is not None and not callable(function):
            raise ConfigError(f"expand({function!r}) needs a function from a DataFrame to a DataFrame")
        expansion = Expansion(step=function, gate=gate, fan_out=fan_out, explode=explode, schema=schema)
        return self._with(Expand(expansion))

    def key_by(
        self,
        *columns: str | Column,
        routing: Routing | str | Policy | None = None,
        limits: Limits | None = None,
        aside: sinks.Sink | Callable[[DataFrame, int], None] | None = None,
        on_complete: Callable[[Completed], None] | None = None,
    ) -> Keyed:
        """Choose the key. `routing`, `limits`, `aside` and `on_complete` are those of `hg.Stage`."""
        if not columns:
            raise ConfigError("key_by() needs a column: key_by('user'), or several")
        listed = columns[0] if len(columns) == 1 else columns
        key = checked_key(column_names(listed, "key"))
        settings = {"routing": routing, "limits": limits, "aside": aside}
        return Keyed(self, key, {**settings, "on_complete": checked_hook(on_complete)})

    def write(self, sink: sinks.Sink | Callable[[DataFrame, int], None]) -> Written:
        """Choose where the output of the last operator goes: `hg.sinks.Parquet(path)`, another sink, or a
        function (DataFrame, batch_id). Columnar steps may stand between the two.
        """
        if not isinstance(self.source, StageSpec):
            raise ConfigError(
                "a direct stream needs a key and an operator before write(...): .key_by('user').aggregate(n=agg.count())"
            )
        return Written(self.spark, self, sinks.as_sink(sink))

    def start(self, *_: Any, **__: Any) -> Query:
        """Refuse a stream without a sink."""
        raise ConfigError(
            "choose where the output goes before start(...): .write(hg.sinks.Parquet('out/users'))"
        )


@dataclass(frozen=True)
class Keyed:
    """Rows with a key, before an operator."""

    stream: Stream
    key: tuple[str, ...]
    settings: dict[str, Any]

    def write(self, sink: Any) -> Written:
        """Refuse rows without an operator."""
        raise ConfigError(
            "a key needs an operator before write(...): .aggregate(n=agg.count()), .apply(kernel), ..."
        )

    def apply(self, operator: Operator) -> Stream:
        """Any operator: a kernel (`@hg.kernel`), `hg.Vectorised(...)`, or one of `hg`."""
        spec = StageSpec((self.stream,), self.key, checked_operator(operator), self.settings)
        return Stream(self.stream.spark, spec)

    def aggregate(self, *unnamed: Agg, **aggregates: Agg) -> Stream:
        """Running aggregates; each batch emits the keys that it touched: see `hg.Aggregate`."""
        return self.apply(Aggregate(*unnamed, **aggregates))

    def windows(self, window: Any, **settings: Any) -> Stream:
        """Aggregates by windows of event time: see `hg.Windows`."""
        return self.apply(_made("windows", Windows, window, **settings))

    def dedup(self, **settings: Any) -> Stream:
        """The first row of each key: see `hg.Dedup`."""
        return self.apply(_made("dedup", Dedup, **settings))

    def top(self, k: int, **settings: Any) -> Stream:
        """The k best rows of each key: see `hg.TopK`."""
        return self.apply(_made("top", TopK, k, **settings))

    def history(self, k: int, stat: Any, **settings: Any) -> Stream:
        """Statistics over the last k rows of each key: see `hg.HistoryWindow`."""
        return self.apply(_made("history", HistoryWindow, k, stat, **settings))

    def join(self, other: Keyed | DataFrame, how: Any = "inner", **settings: Any) -> Stream:
        """Join with another keyed stream within bounds of time (`time="at"` or a pair, then as in
        `hg.Join`), or with a table, a DataFrame (as in `hg.HashJoin`).
        """
        if isinstance(other, Stream):
            raise ConfigError(
                "join(other) needs a key on both sides: join(other.key_by('user'), time='at', ...)"
            )
        if not isinstance(other, Keyed):
            return self.apply(_made("join", HashJoin, other, how=how, **settings))
        time = settings.pop("time", None)
        if time is None:
            raise ConfigError(
                "a join of two streams needs their event time: join(other, time='at', ...), or time=('left', 'right')"
            )
        times = (time, time) if isinstance(time, str) else time
        if not isinstance(times, tuple | list) or [type(name) for name in times] != [str, str]:
            raise ConfigError(
                f"time={time!r}: name one column, or one of the left and one of the right stream"
            )
        if self.key != other.key:
            raise ConfigError(
                f"the left stream has the key {', '.join(self.key)} and the right one {', '.join(other.key)}: rename the columns "
                "with select(...), so that both have the same names"
            )
        if any(value is not None for value in other.settings.values()):
            raise ConfigError("routing, limits and aside belong to the left stream's key_by")
        inputs = (self.stream, other.stream)
        joined = _made("join", Join, how, **settings)
        spec = StageSpec(inputs, self.key, joined, self.settings, (times[0], times[1]))
        return Stream(self.stream.spark, spec)


@dataclass(frozen=True)
class Written:
    """A direct stream that is complete. `start` runs it."""

    spark: SparkSession
    stream: Stream
    """The last operator, and the steps after it."""
    sink: sinks.Sink

    def write(self, sink: object) -> NoReturn:
        """Raises an error: a stream is written once."""
        raise ConfigError(
            f"this stream is written to {self.sink!r} already: a query has one sink. Give it a function that writes to both, or "
            "start a second query with a checkpoint of its own"
        )

    def start(
        self,
        checkpoint: str,
        *,
        available_now: bool = False,
        every: str | None = None,
        max_rows: int | None = None,
        latency: str | None = None,
        durable: bool = True,
        name: str | None = None,
        metrics_port: int | None = None,
        listeners: Sequence[Listener] = (),
    ) -> Query:
        """Check everything, then run the query in the background.

        `checkpoint` is a folder for this query alone: state, routing, output and the offsets of the
        sources. `available_now` processes what the sources have, then ends; `every="1 second"` starts
        a batch at that interval; otherwise a batch follows the one before. A batch takes at most
        `max_rows` rows of each source (about; the source cannot always cut so finely), and fewer if a
        `latency` ("2 seconds") is to be kept. `durable=False` leaves flushing to the operating system.

        `name` is the query's in metrics, logs and Spark's UI. `metrics_port` is an HTTP port for
        Prometheus; 0 takes a free one. `listeners` are called with each event
        (`hg.observe.QueryEvent`): `print`, `hg.observe.TextFile(...)`, your own function.
        """
        from headgate.spark.direct.query import Query, Trigger

        trigger = Trigger.of(available_now, every, max_rows, latency)
        announcer = Announcer(name, listeners, metrics_port, interval=trigger.seconds)
        return Query.of(self, checkpoint, trigger, announcer, durable=durable).begin()

    def explain(self) -> str:
        """What would run: the sources, which steps are columnar, keys and operators."""
        from headgate.spark.direct.resolve import resolved

        return resolved(self).text()


_EXAMPLES = {
    "windows": "windows(hg.tumbling('1 minute'), on='at', delay='5 minutes', n=agg.count())",
    "dedup": "dedup(), or dedup(on='at', delay='1 hour')",
    "top": "top(3, by='amount', keep=['amount'])",
    "history": "history(100, 'mean', of='amount')",
    "join": "join(table, how='left'), or join(other.key_by('user'), time='at', before='0 s', after='1 minute', delay='1 minute')",
}


def _made(method: str, operator: Callable[..., Operator], *given: Any, **settings: Any) -> Operator:
    """An operator; arguments that are missing or unknown are named, with an example."""
    try:
        signature(operator).bind(*given, **settings)
    except TypeError as error:
        raise ConfigError(f"{method}(...): {error}; write {_EXAMPLES[method]}") from None
    return operator(*given, **settings)


def _text(value: Any, where: str) -> str:
    if isinstance(value, str):
        return value
    raise ConfigError(
        f'{where}({value!r}) takes SQL as text, such as "amount > 0"; for a Column use transform(lambda df: df.{where}(...))'
    )


def chain(stream: Stream) -> list[StageSpec]:
    """The stages of a stream, first to last."""
    assert isinstance(stream.source, StageSpec)
    stages = [stream.source]
    while isinstance(stages[0].inputs[0].source, StageSpec):
        stages.insert(0, stages[0].inputs[0].source)
    for stage in stages:
        if len(stage.inputs) > 1 and any(isinstance(i.source, StageSpec) for i in stage.inputs):
            raise ConfigError(
                "a join takes two sources, not the results of another operator: write these to a folder, and read that folder as a source"
            )
    return stages


__all__ = ["Expand", "Keyed", "SparkOnly", "StageSpec", "Stream", "Written", "chain"]
