"""The load of `bench service`: 30 templates, constants and sources by Zipf's law, a third of the
queries joins of two sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

COLUMNS = {"x": "double", "n": "bigint", "key": "varchar"}
SECOND_US = 1_000_000
BATCH_S = 10
"""Event time that one batch covers."""
ROWS = [
    "SELECT x, n FROM {s} WHERE x > {a}", "SELECT key, x FROM {s} WHERE n = {b}", "SELECT x * 2 AS y FROM {s} WHERE x < {a} AND n > {b}",
    "SELECT key FROM {s} WHERE key = 'k{b}'", "SELECT n, x FROM {s} WHERE x BETWEEN {a} AND {a} + 5",
    "SELECT abs(x - {a}) AS d FROM {s} WHERE n < {b}", "SELECT CASE WHEN x > {a} THEN 'high' ELSE 'low' END AS c FROM {s} WHERE n = {b}",
    "SELECT round(x, 1) AS r FROM {s} WHERE key LIKE 'k{b}%'", "SELECT x FROM {s} WHERE x > {a} OR n = {b}",
    "SELECT upper(key) AS k FROM {s} WHERE x > {a} AND x < {a} + 10",
]  # fmt: skip
WINDOWS = [
    "SELECT count(*) AS c FROM {s} WHERE x > {a} GROUP BY TUMBLE(time, INTERVAL '10 seconds')",
    "SELECT avg(x) AS m FROM {s} WHERE n > {b} GROUP BY TUMBLE(time, INTERVAL '10 seconds')",
    "SELECT key, sum(x) AS t FROM {s} WHERE x > {a} GROUP BY key, TUMBLE(time, INTERVAL '10 seconds')",
    "SELECT max(x) AS m, min(x) AS l FROM {s} WHERE n = {b} GROUP BY TUMBLE(time, INTERVAL '20 seconds')",
    "SELECT n, count(*) AS c FROM {s} WHERE x > {a} GROUP BY n, TUMBLE(time, INTERVAL '20 seconds')",
    "SELECT count(x) AS c FROM {s} WHERE x < {a} GROUP BY HOP(time, INTERVAL '5 seconds', INTERVAL '20 seconds')",
    "SELECT avg(x) AS m FROM {s} WHERE n < {b} GROUP BY HOP(time, INTERVAL '10 seconds', INTERVAL '30 seconds')",
    "SELECT sum(n) AS t FROM {s} WHERE x > {a} GROUP BY TUMBLE(time, INTERVAL '30 seconds') HAVING count(*) > 2",
    "SELECT key, max(n) AS m FROM {s} WHERE n > {b} GROUP BY key, TUMBLE(time, INTERVAL '30 seconds')",
    "SELECT count(*) AS c, avg(x) AS m FROM {s} WHERE x BETWEEN {a} AND {a} + 20 GROUP BY TUMBLE(time, INTERVAL '60 seconds')",
]
JOINS = [
    f"SELECT {out} FROM {{s}} a JOIN {{t}} b ON a.key = b.key AND b.time BETWEEN a.time - INTERVAL '{before} seconds' AND a.time "
    f"WHERE {where}"
    for before in (1, 2)
    for out, where in (
        ("a.x, b.x AS y", "a.x > {a}"), ("a.x - b.x AS d", "b.n = {b}"), ("a.key, a.n", "a.x > b.x + {a}"),
        ("a.n, b.n AS m", "a.n > {b}"), ("b.x", "a.x > {a} AND b.x > {a}"),
    )
]  # fmt: skip


@dataclass(frozen=True)
class World:
    """Sizes of a run."""

    queries: int
    sources: int = 2_000
    rows: int = 50_000
    seed: int = 7

    @property
    def names(self) -> list[str]:
        """Of the sources."""
        return [f"s{i}" for i in range(self.sources)]

    def texts(self) -> list[str]:
        """The queries."""
        rng = np.random.default_rng([self.seed, 1])
        n = self.queries
        first, second = _zipf(rng, self.sources, n, 0.8), _zipf(rng, self.sources, n, 0.8)
        second = np.where(second == first, (first + 1) % self.sources, second)
        a, b = _zipf(rng, 200, n, 1.1), _zipf(rng, 50, n, 1.1)
        which, family = rng.integers(0, 10, n), np.arange(n) % 3
        templates = (ROWS, WINDOWS, JOINS)
        return [
            templates[f][w].format(s=f"s{s}", t=f"s{t}", a=x, b=y)
            for f, w, s, t, x, y in zip(
                family.tolist(),
                which.tolist(),
                first.tolist(),
                second.tolist(),
                a.tolist(),
                b.tolist(),
                strict=True,
            )
        ]

    def batch(self, number: int) -> pa.Table:
        """The rows of one batch, in slots; every source has about as many."""
        rng = np.random.default_rng([self.seed, 2, number])
        n = self.rows
        time = np.sort(rng.integers(0, BATCH_S * SECOND_US, n)) + number * BATCH_S * SECOND_US
        keys = np.array([f"k{i}" for i in range(50)])
        columns: dict[str, Any] = {
            "source": pa.array(rng.integers(0, self.sources, n), pa.int32()),
            "time": pa.array(time, pa.timestamp("us")),
            "d0": pa.array(np.round(rng.random(n) * 200, 2)),
            "l0": pa.array(rng.integers(0, 50, n)),
            "v0": pa.array(keys[rng.integers(0, 50, n)]),
        }
        return pa.table(columns)

    def idle_batch(self, number: int) -> pa.Table:
        """A few rows, all of the source that fewest queries read."""
        rows = self.batch(number).slice(0, 100)
        last = pa.array(np.full(rows.num_rows, self.sources - 1), pa.int32())
        return rows.set_column(0, "source", last)


def _zipf(rng: np.random.Generator, values: int, count: int, exponent: float) -> Any:
    weights = np.arange(1, values + 1) ** -exponent
    return rng.choice(values, size=count, p=weights / weights.sum())
