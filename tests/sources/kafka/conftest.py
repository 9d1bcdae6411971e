"""A mock cluster for the tests of a file, and drivers on it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kafka_mock import MockCluster
from tests.sources.kafka.driving import SCHEMA, Driver

from headgate.sources import Kafka


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    made = MockCluster()
    yield made
    made.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return f"t{abs(hash(request.node.nodeid)) % 10**9}"


@pytest.fixture
def driver(cluster: MockCluster, topic: str, tmp_path: Path) -> Any:
    """Makes a driver for the topic of this test. Made again, it is a restart: give it the offset
    that was committed.
    """

    def make(topics: Any = None, schema: Any = SCHEMA, offset: Any = None, **options: Any) -> Driver:
        named = {} if "pattern" in options else {"topics": topics or topic}
        source = Kafka(cluster.servers, schema=schema, **{"timeout": "5 s", **named, **options})
        made = Driver(source, tmp_path / "source-0")
        made.offset = offset
        return made

    return make
