"""librdkafka's own mock cluster, which comes inside the wheel of confluent-kafka: brokers over TCP,
in this process.

It is driven through the library's C functions, so that a test can take a broker away, move a
leader, delete records or a topic. It knows transactions as far as the protocol goes, and no more:
it shows records of open and of aborted ones, fences nobody, and keeps no offsets of a transaction.
What needs that is tested against a real broker.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition

_POINTER, _INT, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "rd_kafka_conf_new": (_POINTER, []),
    "rd_kafka_conf_set": (_INT, [_POINTER, _TEXT, _TEXT, _TEXT, ctypes.c_size_t]),
    "rd_kafka_new": (_POINTER, [_INT, _POINTER, _TEXT, ctypes.c_size_t]),
    "rd_kafka_destroy": (None, [_POINTER]),
    "rd_kafka_mock_cluster_new": (_POINTER, [_POINTER, _INT]),
    "rd_kafka_mock_cluster_destroy": (None, [_POINTER]),
    "rd_kafka_mock_cluster_bootstraps": (_TEXT, [_POINTER]),
    "rd_kafka_mock_topic_create": (_INT, [_POINTER, _TEXT, _INT, _INT]),
    "rd_kafka_mock_topic_delete": (_INT, [_POINTER, _TEXT]),
    "rd_kafka_mock_partition_set_leader": (_INT, [_POINTER, _TEXT, ctypes.c_int32, ctypes.c_int32]),
    "rd_kafka_mock_partition_delete_records": (_INT, [_POINTER, _TEXT, ctypes.c_int32, ctypes.c_int64]),
    "rd_kafka_mock_broker_set_down": (_INT, [_POINTER, ctypes.c_int32]),
    "rd_kafka_mock_broker_set_up": (_INT, [_POINTER, ctypes.c_int32]),
}


def _library() -> Any:
    package = Path(confluent_kafka.__file__).parent
    (path,) = (package.parent / "confluent_kafka.libs").glob("librdkafka*")
    library = ctypes.CDLL(str(path))
    for name, (returns, takes) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = returns, takes
    return library


class MockCluster:
    """The mock brokers of librdkafka, in this process and over TCP."""

    def __init__(self, brokers: int = 3) -> None:
        self._lib = _library()
        said = ctypes.create_string_buffer(512)
        config = self._lib.rd_kafka_conf_new()
        self._lib.rd_kafka_conf_set(config, b"log_level", b"3", said, 512)
        self._handle = self._lib.rd_kafka_new(0, config, said, 512)
        self._cluster = self._lib.rd_kafka_mock_cluster_new(self._handle, brokers)
        self.brokers = brokers
        self.servers: str = self._lib.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self._producer = Producer({"bootstrap.servers": self.servers, "log_level": 0})

    def close(self) -> None:
        self._lib.rd_kafka_mock_cluster_destroy(self._cluster)
        self._lib.rd_kafka_destroy(self._handle)

    def create(self, topic: str, partitions: int = 1) -> None:
        self._do("topic_create", topic.encode(), partitions, 1)

    def delete(self, topic: str) -> None:
        self._do("topic_delete", topic.encode())

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self._do("partition_delete_records", topic.encode(), partition, before)

    def set_leader(self, topic: str, partition: int, broker: int) -> None:
        self._do("partition_set_leader", topic.encode(), partition, broker)

    def down(self, *brokers: int) -> None:
        for broker in brokers or range(1, self.brokers + 1):
            self._do("broker_set_down", broker)

    def up(self, *brokers: int) -> None:
        for broker in brokers or range(1, self.brokers + 1):
            self._do("broker_set_up", broker)

    def _do(self, name: str, *arguments: Any) -> None:
        code = getattr(self._lib, f"rd_kafka_mock_{name}")(self._cluster, *arguments)
        assert code == 0, f"{name}{arguments}: error {code}"

    def produce(self, topic: str, values: Iterable[Any], partition: int = 0, **record: Any) -> None:
        """Append records to a partition. `record` has key, headers or timestamp for all of them."""
        for value in values:
            self._producer.produce(topic, value=value, partition=partition, **record)
        assert self._producer.flush(30) == 0

    def read(self, topic: str, partition: int = 0) -> list[Any]:
        """All records of a partition, as a consumer sees them who reads committed ones."""
        return read_topic(self.servers, topic, partition)


def read_topic(servers: str, topic: str, partition: int = 0) -> list[Any]:
    """All records of a partition, as a consumer sees them who reads committed ones."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "test",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        found = []
        while True:
            message = consumer.poll(30)
            assert message is not None, "nothing came for 30 s"
            error = message.error()
            if error is None:
                found.append(message)
            elif error.name() == "_PARTITION_EOF":
                return found
            else:
                raise AssertionError(str(error))
    finally:
        consumer.close()
