"""Results as records of Kafka: on librdkafka's mock brokers, and with --full on a real one, with a process that dies."""

import json

import pytest
from tests.kafka_mock import MockCluster, read_topic
from tests.service.delivery.receiver import allowing, desk_of, rows, settle
from tests.service.local import Local

from headgate.service.delivery.dispatch import Dispatcher
from headgate.service.delivery.senders import SinkSender
from headgate.service.targets_config import Target


@pytest.fixture(scope="module")
def cluster():
    cluster = MockCluster(1)
    yield cluster
    cluster.close()


class Died(BaseException):
    """The process has ended here."""


def ordered(folder, servers, options=None):
    target = Target("bus", "kafka", {"servers": servers, "topic": "results_{tenant}"}, frozenset("*"))
    local = Local(folder, servers=1, allowed=allowing(bus=target))
    (number,) = local.add("SELECT n, city FROM alpha")
    ((one,), secret) = desk_of(local).add(local.ann, [number], "bus", options or {})
    assert secret == ""
    return local, number, one


def die_when_sent(patch) -> None:
    real = SinkSender.send

    def send(self, parcel) -> None:
        real(self, parcel)
        raise Died

    patch.setattr(SinkSender, "send", send)


def check(world, servers) -> None:
    """The process dies after a transaction and before the cursor moves; the parcel is then not sent again."""
    local, number, one = world
    local.feed(rows(1, 2))
    with pytest.MonkeyPatch.context() as patch:
        die_when_sent(patch)
        with pytest.raises(Died):
            Dispatcher(local.service).step(one.id)
    local.restart()
    local.feed(rows(3))
    settle(Dispatcher(local.service), one.id)
    records = read_topic(servers, "results_ann")
    shown, _ = local.service.read(local.ann, number)
    assert [json.loads(record.value()) for record in records] == shown
    assert [record.key() for record in records] == [b"city 1", b"city 2", b"city 3"]
    ids = [dict(record.headers())["headgate-id"] for record in records]
    assert len(set(ids)) == 3
    local.service.close()


def test_each_result_is_a_record_once(cluster, tmp_path) -> None:
    cluster.create("results_ann")
    check(ordered(tmp_path, cluster.servers, {"key": "city"}), cluster.servers)


def test_brokers_that_are_away_are_told_without_their_address(cluster, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("headgate.service.delivery.senders.KAFKA_TIMEOUT", "1 second")
    local, _, one = ordered(tmp_path, "127.0.0.1:9")
    local.feed(rows(1))
    dispatcher = Dispatcher(local.service)
    with pytest.raises(Exception, match="could not be looked up") as raised:
        dispatcher.step(one.id)
    dispatcher._failed(one.id, raised.value)
    shown = desk_of(local).get(local.ann, one.id)
    assert (shown["state"], shown["why"]) == ("active", "target 'bus' could not be reached (SinkFailed)")
    local.service.close()


@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_same_on_a_real_broker(java_home, tmp_path) -> None:
    from tests.kafka_broker import Broker

    broker = Broker(tmp_path / "kafka")
    try:
        broker.create("results_ann")
        check(ordered(tmp_path / "service", broker.servers, {"key": "city"}), broker.servers)
    finally:
        broker.kill()
