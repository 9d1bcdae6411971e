"""A driver that commits batches and publishes them through a sink, one after the other, until it is killed.

    python publisher_job.py FOLDER SINK BATCHES

A batch is committed when its number is in the file `committed`. The rows of batch N are (N, 1) and, for each of
three keys, (key, N).
"""

import os
import sys
from pathlib import Path
from typing import Any

from tests.stage.staged import Staged

import headgate as hg


def sink_of(folder: Path, kind: str) -> Any:
    options: dict[str, Any] = {"mode": "upsert", "key": "k"} if kind.endswith("upsert") else {}
    if kind.startswith("delta"):
        return hg.sinks.Delta(str(folder / "t"), **options)
    if kind.startswith("sqlite"):
        return hg.sinks.Table(f"sqlite:///{folder}/t.db", "t", **options)
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
    return hg.sinks.Iceberg("shop.t", catalog=catalog, **options)


def rows_of(number: int) -> list[dict[str, int]]:
    return [{"k": 1000 + number, "n": 1}, *({"k": key, "n": number} for key in range(3))]


def main() -> None:
    folder, kind, batches = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    log = folder / "committed"
    committed = int(log.read_text()) + 1 if log.exists() else 0
    staged = Staged(folder / "checkpoint")
    for number in range(committed):
        staged.add(rows_of(number))  # the same bytes as before
    sink = sink_of(folder, kind)
    staged.start(sink)
    print("started", flush=True)
    while len(staged.outputs) < batches:
        number = len(staged.outputs)
        output = staged.add(rows_of(number))
        draft = log.with_suffix(".new")
        draft.write_text(str(number))
        os.replace(draft, log)
        sink.publish(output)
        print(number, flush=True)


if __name__ == "__main__":
    main()
