"""A skewed stream through a real stage, without Spark: hot keys that move, windows by event time, waiting rows."""

from typing import Any

import numpy as np
import pyarrow as pa

import headgate as hg
from headgate import agg
from headgate.stage.stage import KeyedStage
from headgate.testing import InProcess
from headgate.testing.watches import ModelledTime

NASTY = "<img src=x onerror=alert(1)>&\"'"
"""A key that is HTML."""


class Skewed:
    """A stage, and the stream that it gets batch by batch."""

    def __init__(self, checkpoint: str, *, rows: int = 4000, **options: Any) -> None:
        self.rows, self.engine = rows, InProcess(watch=ModelledTime(100))
        self.rng = np.random.default_rng(7)
        settings = {
            "key": "user",
            "operator": hg.Windows(hg.tumbling("10 seconds"), on="at", delay="5 seconds", n=agg.count()),
            "checkpoint": checkpoint,
            "sink": hg.sinks.Memory(),
            "routing": hg.Routing(policy="flux-load", channels=4, bins=32),
            "durable": False,
            **options,
        }
        self.stage: KeyedStage[pa.Table] = KeyedStage(self.engine, **settings)
        self.batches = 0

    def batch(self) -> None:
        """One more batch: a fifth of its rows has one key, and after every third batch another key is hot."""
        number = self.batches
        keys = self.rng.zipf(1.3, self.rows) % 500 + 100 * (number // 3)
        users = [NASTY if key % 500 == 1 else f"user {key}" for key in keys.tolist()]
        at = 1_700_000_000_000_000 + number * 4_000_000 + self.rng.integers(0, 4_000_000, self.rows)
        table = pa.table({"user": users, "at": pa.array(at, pa.timestamp("us", tz="UTC"))})
        self.stage.process(table, number, None)
        self.batches += 1

    def run(self, batches: int) -> KeyedStage[pa.Table]:
        """So many batches."""
        for _ in range(batches):
            self.batch()
        return self.stage
