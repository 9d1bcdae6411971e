"""What runs a service's batches on Spark: the loop, over the pushed events and the streams of the configuration."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from headgate.service.batch.catch_up import CatchUp
from headgate.service.batch.job import SparkJob
from headgate.service.batch.loop import Loop, Stream
from headgate.service.batch.processor import BatchProcessor
from headgate.service.batch.push_stream import PushStream
from headgate.service.batch.ranges import in_utc, union
from headgate.service.service import Service

SWITCH_S = 0.0005
"""How long a thread that reads a large request keeps the batches waiting, in seconds: they talk to Spark, and would wait
as long as this for each word of its answers."""


class Runner:
    """Runs a service's batches until it is stopped. `streams` are read in addition to the pushed events; `loop` lets
    streams come and go meanwhile.
    """

    def __init__(self, service: Service, spark: SparkSession, streams: Sequence[Stream] = ()) -> None:
        self.service = service
        tasks = spark.sparkContext.defaultParallelism
        pushed = PushStream(in_utc(spark), service, tasks)
        processor = BatchProcessor(service, SparkJob(), tasks=service.settings.tasks or tasks)
        self.loop = Loop(service, processor, [pushed, *streams], union, tasks=tasks)
        self.loop.catch_up = CatchUp(service, processor, pushed.nothing)

    def start(self) -> None:
        """Start the loop; returns at once."""
        sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))
        self.loop.start()
        self.service.running = True

    def stop(self, drain_s: float = 0.0) -> None:
        """Stop after the batch under way, if it does not take longer than this; otherwise it was never committed."""
        self.loop.stop(drain_s or 30.0)
        self.service.running = False
