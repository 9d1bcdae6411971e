"""Who fills the topics: a backlog as fast as it goes, or records at a fixed rate whose times of sending are noted.

Record i goes to partition i % partitions, in order, so its offset there is i // partitions. The process at a fixed rate is
`python -m headgate_lab.bench.kafka.producer SERVERS TOPIC PARTITIONS RATE SECONDS KEYS FILE`; at its end it writes
the times, in seconds since 1970, as a NumPy file.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from headgate.errors import HeadgateError

TICK_S = 0.005
"""At a fixed rate, records are sent so often."""


def _producer(servers: str, **config: Any) -> Any:
    from confluent_kafka import Producer

    named = {name.replace("_", "."): value for name, value in config.items()}
    return Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0, **named})


def _beginnings(count: int, keys: int, seed: int) -> list[bytes]:
    """The beginnings of some records, for keys by Zipf's law. Amounts are quarters, so that sums are exact."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, keys + 1)
    users = rng.choice(keys, size=count, p=weights / weights.sum())
    amounts = rng.integers(0, 4000, count) / 4
    return [
        b'{"user": %d, "amount": %s, "sent": ' % (user, str(amount).encode())
        for user, amount in zip(users.tolist(), amounts.tolist(), strict=True)
    ]


def _sent(producer: Any, topic: str, value: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition)
            return
        except BufferError:
            producer.poll(0.01)


def _flushed(producer: Any) -> None:
    if producer.flush(120):
        raise HeadgateError("the broker did not take all records within two minutes")


def backlog(servers: str, topic: str, *, partitions: int, records: int, keys: int) -> None:
    """Fill a topic."""
    producer = _producer(servers, linger_ms=20, batch_size=1 << 20, queue_buffering_max_messages=500_000)
    begun = _beginnings(min(records, 500_000), keys, seed=5)
    for number in range(records):
        _sent(producer, topic, b"%s%d}" % (begun[number % len(begun)], number), number % partitions)
        if number % 10_000 == 0:
            producer.poll(0)
    _flushed(producer)


def steady(servers: str, topic: str, *, partitions: int, rate: int, seconds: float, keys: int) -> np.ndarray:
    """Send records at a fixed rate; the time of each is taken just before it is handed to the client.
    If the process falls behind, it catches up: a record is never left out.
    """
    total = int(rate * seconds)
    begun = _beginnings(min(total, 500_000), keys, seed=7)
    producer = _producer(servers, linger_ms=1)
    times = np.zeros(total)
    start, number = time.time() + 0.1, 0
    while number < total:
        due = min(total, int((time.time() - start) * rate) + 1)
        while number < due:
            now = time.time()
            _sent(producer, topic, b"%s%d}" % (begun[number % len(begun)], now * 1e6), number % partitions)
            times[number] = now
            number += 1
        producer.poll(0)
        time.sleep(TICK_S)
    _flushed(producer)
    return times


def main() -> None:
    """Send, and write the times."""
    servers, topic, partitions, rate, seconds, keys, file = sys.argv[1:]
    times = steady(
        servers, topic, partitions=int(partitions), rate=int(rate), seconds=float(seconds), keys=int(keys)
    )
    np.save(file, times)


if __name__ == "__main__":
    main()
