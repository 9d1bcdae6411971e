"""Whenever the process dies, every result arrives: once where the target remembers, and with an id where it does not."""

import json
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.service.delivery.receiver import allowing, desk_of, receiving, rows, settle
from tests.service.local import Local

from headgate.service.delivery.dispatch import Dispatcher
from headgate.service.delivery.senders import SinkSender, WebhookSender
from headgate.service.service import Service
from headgate.service.settings import Settings
from headgate.service.targets_config import Target
from headgate.stage.sinks import Parquet

KINDS = ("parquet", "delta", "iceberg", "webhook")
POINTS = ("prepare", "pending", "send", "sent")
"""Where the process dies: before the target is looked at, before and after a parcel is pending, after it was sent."""
_folders = count()


class Died(BaseException):
    """The process has ended here."""


class World:
    """A service with one query, a delivery of it, and what its target has."""

    def __init__(self, folder, kind, receiver) -> None:
        self.folder, self.kind, self.receiver = folder, kind, receiver
        lake = f"{folder}/lake"
        (folder / "lake").mkdir(parents=True)
        catalog = {"name": "t", "type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": lake}
        given = {"catalog": catalog} if kind == "iceberg" else {"path": lake}
        target = Target("lake", kind, given, frozenset({"ann"}))
        self.local = Local(folder / "service", servers=1, allowed=allowing(lake=target))
        (self.number,) = self.local.add("SELECT n, city, x FROM alpha")
        options = {"url": receiver.url} if kind == "webhook" else {"table": "out"}
        name = "webhook" if kind == "webhook" else "lake"
        ((self.delivery,), _) = desk_of(self.local).add(self.local.ann, [self.number], name, options)
        self.fed = 0
        self.dispatcher = Dispatcher(self.local.service)

    def feed(self, amount) -> None:
        values = range(self.fed, self.fed + amount)
        self.local.feed(rows(*values, at=self.fed))
        self.fed += amount

    def step(self, point=None) -> None:
        """A turn, in which the process may die; then another is started."""
        if point is None:
            return settle(self.dispatcher, self.delivery.id)
        with pytest.MonkeyPatch.context() as patch:
            self._plant(patch, point)
            try:
                settle(self.dispatcher, self.delivery.id)
            except Died:
                self.local.restart()
                self.dispatcher = Dispatcher(self.local.service)

    def _plant(self, patch, point) -> None:
        sender = WebhookSender if self.kind == "webhook" else SinkSender
        orders = self.local.service.deliveries
        if point in ("prepare", "send"):
            patch.setattr(sender, point, _die)
        elif point == "sent":
            real = sender.send

            def send(self, parcel):
                real(self, parcel)
                raise Died

            patch.setattr(sender, "send", send)
        else:
            real_update = orders.update

            def update(known, **changes):
                if changes.get("pending"):
                    raise Died
                return real_update(known, **changes)

            patch.setattr(orders, "update", update)

    def arrived(self):
        """The numbers that the target has, in order."""
        if self.kind == "webhook":
            seen = {body["id"]: body for body in self.receiver.bodies}
            for body in self.receiver.bodies:
                assert body == seen[body["id"]], "a parcel that comes again is the same"
            return [row["values"]["n"] for body in seen.values() for row in body["results"]]
        lake = f"{self.folder}/lake/ann/out"
        if self.kind == "parquet":
            files = Parquet(lake, batch_column="parcel").files()
            return [n for file in files for n in pq.ParquetFile(file).read().column("n").to_pylist()]
        if self.kind == "delta":
            from deltalake import DeltaTable

            return sorted(DeltaTable(lake).to_pyarrow_table().column("n").to_pylist())
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog(
            "t", type="sql", uri=f"sqlite:///{self.folder}/catalog.db", warehouse=f"{self.folder}/lake"
        )
        return sorted(catalog.load_table("ann.out").scan().to_arrow().column("n").to_pylist())


def _die(*_):
    raise Died


@pytest.fixture(scope="module")
def receiver():
    with receiving() as receiver:
        yield receiver


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_and_nothing_doubled_when_the_process_dies(kind, tmp_path, receiver) -> None:
    receiver.requests.clear()
    world = World(tmp_path, kind, receiver)
    for amount, point in enumerate(("sent", *POINTS, None), start=1):
        world.feed(amount)
        world.step(point)
        world.feed(1)
    world.step()
    assert world.arrived() == list(range(world.fed))
    shown = desk_of(world.local).get(world.local.ann, world.delivery.id)
    assert (shown["state"], shown["batches_behind"]) == ("active", 0)
    world.local.service.close()


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_for_any_story(kind, tmp_path, receiver) -> None:
    events = st.one_of(
        st.tuples(st.just("feed"), st.integers(1, 4)),
        st.tuples(st.just("step"), st.sampled_from([None, *POINTS])),
    )

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(events, max_size=12))
    def check(story) -> None:
        receiver.requests.clear()
        world = World(tmp_path / str(next(_folders)), kind, receiver)
        world.feed(1)
        for what, value in story:
            world.feed(value) if what == "feed" else world.step(value)
        world.step()
        assert world.arrived() == list(range(world.fed))
        world.local.service.close()

    check()


def test_a_table_has_the_types_and_times_of_the_results(tmp_path, receiver) -> None:
    world = World(tmp_path, "parquet", receiver)
    (windows,) = world.local.add(
        "SELECT city, count(*) AS c, sum(x) AS s, max(time) AS latest FROM alpha GROUP BY city, TUMBLE(time, INTERVAL '10 seconds')"
    )
    ((delivery,), _) = desk_of(world.local).add(world.local.ann, [windows], "lake", {"table": "windows"})
    world.local.feed(rows(*range(40)))
    settle(world.dispatcher, delivery.id)
    (file,) = Parquet(f"{world.folder}/lake/ann/windows", batch_column="parcel").files()
    table = pq.ParquetFile(file).read()
    shown, _ = world.local.service.read(world.local.ann, windows)
    assert [str(kind) for kind in table.schema.types] == [
        "int64", "int64", "timestamp[us, tz=UTC]", "timestamp[us, tz=UTC]", "string", "int64", "double",
        "timestamp[us, tz=UTC]",
    ]  # fmt: skip
    text = [
        {
            "start": r["_window_start"].isoformat(),
            "end": r["_window_end"].isoformat(),
            "city": r["city"],
            "c": r["c"],
        }
        for r in table.to_pylist()
    ]
    assert json.loads(json.dumps(text).replace("+00:00", "Z")) == [
        {**row["window"], "city": row["values"]["city"], "c": row["values"]["c"]} for row in shown
    ]
    world.local.service.close()


@pytest.mark.full
def test_a_process_that_is_killed_between_the_write_and_the_cursor(tmp_path) -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", "tests.service.delivery.killed", str(tmp_path)], cwd=root, check=False
    )
    assert done.returncode == -signal.SIGKILL
    target = Target("lake", "parquet", {"path": f"{tmp_path}/lake"}, frozenset({"ann"}))
    service = Service(Settings(tmp_path / "service", allowed=allowing(lake=target)))
    (one,) = service.deliveries.of("ann")
    assert (one.number, bool(one.pending)) == (1, True)
    settle(Dispatcher(service), one.id)
    files = Parquet(f"{tmp_path}/lake/ann/out", batch_column="parcel").files()
    assert [n for file in files for n in pq.ParquetFile(file).read().column("n").to_pylist()] == [0, 1]
    service.close()
