"""Batches of output for a sink, as tasks would have staged them, and drivers that die while they publish."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from headgate.errors import UnsupportedType
from headgate.operators import agg
from headgate.operators.aggregate import Aggregate
from headgate.stage.settings import Routing
from headgate.stage.sink import Output, Sink
from headgate.stage.stage import KeyedStage
from headgate.storage.output_file import write_parquet
from headgate.storage.parquet_folder import Owner
from headgate.storage.store import Store
from headgate.testing import InProcess

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])
WIDER = SCHEMA.append(pa.field("new", pa.string()))


class Killed(BaseException):
    """The driver dies here."""


class Staged:
    """The output of a stage: batches that are committed, each in some files."""

    def __init__(self, folder: Any, schema: pa.Schema = SCHEMA, stage: str = "4be35ea6") -> None:
        self.engine, self.schema = InProcess(), schema
        self.store = Store(str(folder), durable=False)
        self.owner = Owner(stage, f"file:///checkpoints/{stage}")
        self.outputs: list[Output] = []

    def add(self, *files: Sequence[dict[str, Any]], schema: pa.Schema | None = None) -> Output:
        """Commit a batch that has these rows, a file for each list of them."""
        number, columns = len(self.outputs), schema or self.schema
        folder = f"{number:012d}-00000001.aaaaaaaa"
        self.store.make(folder)
        written = [
            write_parquet(
                self.store,
                f"{folder}/part-{number:012d}-{at:05d}-x.parquet",
                pa.Table.from_pylist(list(rows), schema=columns),
                columns,
            )
            for at, rows in enumerate(files)
        ]
        output = Output(number, self.store, tuple(written), columns, self.engine, owner=self.owner)
        self.outputs.append(output)
        return output

    @property
    def committed(self) -> int | None:
        return len(self.outputs) - 1 if self.outputs else None

    def start(self, sink: Sink) -> None:
        """What a driver does when it starts: it checks, and publishes the last batch again."""
        sink.check_columns(self.outputs[-1].schema if self.outputs else self.schema)
        sink.own(self.owner, self.committed)
        if self.outputs:
            sink.publish(again(self.outputs[-1]))


def again(output: Output) -> Output:
    """The same output, for a driver that cannot know whether it was published."""
    return Output(output.batch, output.store, output.files, output.schema, output.engine, True, output.owner)


@contextmanager
def dying(steps_of: Mapping[Any, Sequence[str]], at: int) -> Iterator[None]:
    """Let the driver die at the step number `at`: before a call of one of the named methods, or after one."""
    steps = itertools.count()

    def doomed(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            if next(steps) == at:
                raise Killed
            result = call(*args, **options)
            if next(steps) == at:
                raise Killed
            return result

        return called

    with pytest.MonkeyPatch.context() as patched:
        for target, names in steps_of.items():
            for name in names:
                patched.setattr(target, name, doomed(getattr(target, name)))
        yield


def killed_everywhere(
    make: Callable[[int], Sink],
    steps_of: Callable[[Any], Mapping[Any, Sequence[str]]],
    folder: Any,
    check: Callable[[int], None],
    *,
    wider: bool = True,
) -> int:
    """Publish three batches, and let the driver die at each step in turn, once in each batch. Afterwards `check` looks at the
    table. Return how many steps there are. The third batch has a column more if the sink adds columns.
    """
    batches = [
        ([{"k": 1, "n": 1}, {"k": 2, "n": 1}], SCHEMA),
        ([], SCHEMA),
        ([{"k": 1, "n": 2}], WIDER if wider else SCHEMA),
    ]
    for at in itertools.count():
        staged, died = Staged(folder / f"checkpoint-{at}"), 0
        for rows, schema in [(None, SCHEMA), *batches]:
            output = None if rows is None else staged.add(*([rows] if rows else []), schema=schema)
            sink = make(at)
            try:
                with dying(steps_of(sink), at):
                    if output is None:
                        staged.start(sink)
                    else:
                        sink.check_columns(schema)
                        sink.publish(output)
            except Killed:
                died += 1
                staged.start(make(at))
        check(at)
        if not died:
            return at
    raise AssertionError


def published_meanwhile(staged: Staged, first: Any, second: Sink, step: str) -> list[tuple[int, int]]:
    """Two drivers publish the same batch: the second one does all of its work while the first one is in the middle
    of a step. Return the rows that the table should have.
    """
    staged.start(first)
    output = staged.add([{"k": 1, "n": 1}], [{"k": 2, "n": 1}])
    others = itertools.count()
    original = getattr(first._table, step)

    def meanwhile(*args: Any) -> Any:
        if next(others) == 0:
            staged.start(second)
            second.publish(staged.add([{"k": 9, "n": 1}]))
        return original(*args)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(first._table, step, meanwhile)
        first.publish(output)
    staged.start(second)
    return [(1, 1), (2, 1), (9, 1)] if len(staged.outputs) == 2 else [(1, 1), (2, 1)]


def evolved(staged: Staged, make: Callable[[], Sink]) -> list[dict[str, Any]]:
    """Publish a batch, one with a column more, and one without it. Return the rows that an appended table should have, and
    check that a column of another type is refused.
    """
    batches: list[tuple[pa.Schema, dict[str, Any]]] = [
        (SCHEMA, {"k": 1, "n": 1}),
        (WIDER, {"k": 2, "n": 1, "new": "a"}),
        (SCHEMA, {"k": 3, "n": 1}),
    ]
    sink = make()
    staged.start(sink)
    for schema, row in batches:
        sink.check_columns(schema)
        sink.publish(staged.add([row], schema=schema))
    with pytest.raises(UnsupportedType, match="column 'new' of"):
        make().check_columns(SCHEMA.append(pa.field("new", pa.int64())))
    return [{"new": None, **row} for _, row in batches]


STAGE_STEPS = ("open", "compute", "commit", "journal", "retire", "publish")
COUNTED = [(0, 1), (1, 9), (2, 5), (3, 1)]
"""What `killed_in_any_stage` counts for each key."""


def killed_in_any_stage(sink: Callable[[], Sink], folder: Any, step: str) -> None:
    """Four batches of a stage that counts keys, in each of which a driver dies at a step, and the next one goes on."""
    engine = InProcess()

    def driver() -> KeyedStage[pa.Table]:
        return KeyedStage(
            engine,
            key="k",
            operator=Aggregate(n=agg.count()),
            checkpoint=str(folder / "c"),
            durable=False,
            sink=sink(),
            routing=Routing(policy="static", channels=2, bins=8),
        )

    def die(name: str) -> None:
        if name == step:
            raise Killed

    for number in range(4):
        rows = pa.table({"k": pa.array([1, 2, 1, number], pa.int64())})
        doomed = driver()
        doomed.on_step = die
        with pytest.raises(Killed):
            doomed.process(rows, number, None)
        engine.lose_memory()
        driver().process(rows, number, None)
