"""Spark's JVM by its own account: what of its memory is heap, what of the heap is alive, and what is beside it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLLECTIONS = 3
"""Full collections until an idle JVM has given back what it can: what the first one finds, Spark's cleaner frees."""


class JvmAccount:
    """Asks a JVM for its memory.

    `heap` is what the JVM holds for objects, garbage included. `live` is what was left of it after the last
    collection of each generation: what the work needs. `buffers` are Arrow's and the network's, outside the heap;
    `code` is classes and compiled code.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm = spark._jvm
        beans = jvm.java.lang.management.ManagementFactory
        self._system, self._platform = jvm.System, jvm.io.netty.util.internal.PlatformDependent
        self._memory = beans.getMemoryMXBean()
        self._generations = [pool for pool in beans.getMemoryPoolMXBeans() if pool.getType().name() == "HEAP"]

    def settle(self) -> None:
        """Collect garbage, so that nobody's is counted."""
        for _ in range(COLLECTIONS):
            self._system.gc()
            time.sleep(0.3)

    def __call__(self) -> dict[str, int]:
        """Bytes by kind, now."""
        return {
            "heap": self._memory.getHeapMemoryUsage().getCommitted(),
            "live": sum(pool.getCollectionUsage().getUsed() for pool in self._generations),
            "buffers": max(0, self._platform.usedDirectMemory()),
            "code": self._memory.getNonHeapMemoryUsage().getCommitted(),
        }
