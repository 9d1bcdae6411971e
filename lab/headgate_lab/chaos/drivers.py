"""A driver of a history: the product's own stage and loop, over the simulated world."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headgate.control.guard import Guard
from headgate.errors import HeadgateError
from headgate.flow.gate import Gate
from headgate.operators.base import Operator
from headgate.spark.direct.following import Following
from headgate.stage import sinks
from headgate.stage.settings import Expansion, Limits, Routing
from headgate.stage.stage import KeyedStage
from headgate.storage import store
from headgate.streams.batch_size import BatchSize
from headgate.streams.drive import Drive
from headgate.streams.planned import Input
from headgate_lab.chaos.engines import DirectFaultyEngine, Executors, FaultyEngine, planned_rows
from headgate_lab.chaos.faults import Killed
from headgate_lab.chaos.history import Settings
from headgate_lab.chaos.oracle import FIRST_OF_KEY, groups, operator_of
from headgate_lab.chaos.routes import Scripted
from headgate_lab.chaos.source import SIDES, Folder, Log, Side, SparkRecords, joined, table_of
from headgate_lab.chaos.world import World

ORIGIN = "query"
FIRST, SECOND = "checkpoint", "second"
"""The folders of the stages."""
GUARD = Guard(min_gain=0, cool_down_batches=0)
SIZE = BatchSize(most=1000)


class Published:
    """What the sink's function, or the sink in memory, was given: by batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[dict[str, Any]]] = {}
        self.problems: list[str] = []

    def __call__(self, rows: pa.Table, batch: int) -> None:
        """A batch is published, perhaps again."""
        values = rows.to_pylist()
        if self.batches.setdefault(batch, values) != values:
            self.problems.append(f"batch {batch} was published again with other rows")


class Remembered(sinks.Memory):
    """The sink in memory. A restart loses it, so what it was given is noted elsewhere."""

    def __init__(self, published: Published) -> None:
        super().__init__()
        self._published = published

    def publish(self, output: sinks.Output) -> None:
        super().publish(output)
        self._published(self.batches[output.batch], output.batch)


class Driver:
    """One driver: its process, its stage and, for a direct stream, its loop."""

    def __init__(
        self,
        number: int,
        settings: Settings,
        world: World,
        executors: Executors,
        source: Log | SparkRecords,
        published: Published,
    ) -> None:
        self.number, self.world, self.source = number, world, source
        self.process = world.born(f"driver {number}")
        self.error: BaseException | None = None
        self.done = False
        """Whether it has come to the end of its last work."""
        self.policy = Scripted()
        self._settings = settings
        direct = isinstance(source, Log)
        self.engine = (DirectFaultyEngine if direct else FaultyEngine)(world, executors)
        self._root: str = world.url  # type: ignore[attr-defined]
        sink = _sink(settings.sink, self._root, published)
        if settings.operator == "two stages":
            second = self._stage(SECOND, "g", groups(), sink)
            self.stage = self._stage(FIRST, "k", operator_of(settings.operator), None)
            self.stage.sink = _following(self.stage, second) if direct else _next(self.stage, second)
            self.stages = [self.stage, second]
        else:
            self.stage = self._stage(FIRST, "k", operator_of(settings.operator), sink)
            self.stages = [self.stage]
        self.drive: Drive[Any] | None = None
        if isinstance(source, Log):
            inputs = [Input(source.files() if isinstance(source, Folder) else source)]
            if source.two_sides:
                inputs = [Input(Side(source, number), (step,)) for number, step in enumerate(SIDES)]
            self.drive = Drive(self.stages, inputs, planned_rows, size=SIZE, tasks=2, now=lambda: 0.0)
        self._opened = False
        for stage in self.stages:
            (store.tried.add if settings.tried else store.tried.discard)(stage.store.url)

    def _stage(self, name: str, key: str, operator: Operator, sink: Any) -> KeyedStage[Any]:
        settings = self._settings
        gate = settings.gate if name == FIRST else 0
        return KeyedStage(
            self.engine,
            key=key,
            operator=operator,
            checkpoint=f"{self._root}/{name}",
            sink=sink,
            routing=Routing(
                policy=self.policy,
                channels=min(settings.channels, settings.bins),
                bins=settings.bins,
                guard=GUARD,
                smoothing=1.0,
            ),
            limits=Limits(
                memory=settings.memory or None,
                arrivals=settings.arrivals or None,
                buffer=settings.buffer or None,
                turn_ms=0,
            ),
            expansion=Expansion(gate=Gate(in_flight=1, batch=gate)) if gate else None,
            durable=settings.durable,
        )

    @property
    def failed(self) -> bool:
        """Whether it has stopped with an error, and can be used on."""
        return self.done and not self.process.dead and self.error is not None

    def work(self, *, end: str = "") -> None:
        """Process all rows there are; with `end`, drain the stage or finish it then."""
        self.done, self.error = False, None
        try:
            self._deliver()
            for stage in self.stages if end else ():
                (stage.finish if end == "finish" else stage.drain)()
        except Killed:
            self.process.dead = True
        except HeadgateError as error:
            self.error = error
            self._opened = False
        except Exception as error:
            self.error = error
        self.done = True

    def _deliver(self) -> None:
        source = self.source
        if isinstance(source, SparkRecords):
            while (number := source.done + 1) < len(source.planned):
                rows = source.planned[number]
                table = joined(rows) if self._settings.operator == "join" else table_of(rows)
                source.delivered = max(source.delivered, number)
                self.stage.process(table, number, ORIGIN)
                source.done = max(source.done, number)
            return
        assert self.drive is not None
        if not self._opened:
            self.drive.open()
            self._opened = True
        while self.drive.step(self.world.now) is not None:
            pass


def _next(stage: KeyedStage[Any], following: KeyedStage[Any]) -> sinks.Sink:
    """The second stage of a pipeline as the sink of the first."""

    def next_stage(rows: pa.Table, batch: int) -> None:
        assert stage.opened is not None
        following.process(rows, batch, f"stage:{stage.opened.checkpoint.stage}")

    return sinks.Function(next_stage)


def _following(stage: KeyedStage[Any], following: KeyedStage[Any]) -> sinks.Sink:
    """The same for a direct stream: committed files are the ranges of the second stage."""

    def origin() -> str:
        assert stage.opened is not None
        return f"stage:{stage.opened.checkpoint.stage}"

    sink = Following(following, planned_rows, FIRST_OF_KEY)
    sink.origin = origin
    return sink


def _sink(kind: str, root: str, published: Published) -> Any:
    if kind == "parquet":
        return sinks.Parquet(f"{root}/out")
    return Remembered(published) if kind == "memory" else published
