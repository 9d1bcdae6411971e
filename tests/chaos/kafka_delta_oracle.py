"""What the Delta tables of `kafka_delta_job` should have, by the records of the topic."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake


def compare(stream: str, table: Path, records: list[Any]) -> tuple[int, int, int]:
    """The rows that a table lacks, those that it has too often or that are wrong, and the number of its batches."""
    columns = {"rows": ["partition", "offset", "k", "n"]}.get(stream, ["k", "n", "total"])
    dataset = deltalake.DeltaTable(str(table)).to_pyarrow_dataset()
    found = Counter(tuple(row[name] for name in columns) for row in dataset.to_table().to_pylist())
    numbers = batches_of(table)
    if stream == "rows":
        wanted = Counter(records)
    else:
        sums: dict[int, list[tuple[int, int, int]]] = {}
        for _, _, key, value in sorted(records):
            before = sums.setdefault(key, [(key, 0, 0)])[-1]
            sums[key].append((key, before[1] + 1, before[2] + value))
        newest = Counter(rows[-1] for rows in sums.values())
        wanted = newest
        if stream == "history":  # which of the earlier rows are there is up to the batches
            possible = {row for rows in sums.values() for row in rows}
            wanted = newest | Counter({row: 1 for row in found if row in possible})
    lost = sum((wanted - found).values()) + len(set(range(max(numbers) + 1)) - set(numbers))
    doubled = sum((found - wanted).values()) + sum(times - 1 for times in numbers.values())
    return lost, doubled, len(numbers)


def batches_of(table: Path) -> Counter[int]:
    """How often each batch is in the log of a table."""
    numbers = Counter[int]()
    for entry in sorted((table / "_delta_log").glob("*.json")):
        for line in entry.read_text().splitlines():
            told = json.loads(line).get("txn")
            if told is not None and told["appId"].startswith("headgate/") and told["version"] >= 0:
                numbers[told["version"]] += 1
    return numbers
