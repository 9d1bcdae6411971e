"""What a batch of a direct stream costs on S3, by the server's own log: `python -m tests.storage.s3_costs [FILE]`.

Writes the shape of `headgate bench NAME --json`. The server is moto's, behind a proxy that notes every request; tasks and driver
run in one process, without Spark, and their requests are the product's own.
"""

import json
import platform
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.storage import s3
from tests.storage.s3_stream import KEYS, Nothing, Numbers, run_all, stream

from headgate.stage import sinks

BATCHES, WARM = 43, 3
"""Batches, and those at the start that are not counted: a driver claims the checkpoint and sweeps."""


def kind_of(method: str, path: str) -> str:
    """The kind of a request, as S3 charges for it."""
    if method == "POST" and path.endswith("?delete"):
        return "delete"
    return "list" if method == "GET" and "list-type=" in path else {"HEAD": "get"}.get(method, method.lower())


def measured(server: s3.Faulty, sink: str, channels: int) -> dict[str, Any]:
    """The requests of each batch, and how many of each kind in all."""
    root = f"s3://{s3.BUCKET}/{sink}-{channels}"
    target = sinks.Parquet(f"{root}/out") if sink == "parquet" else Nothing()
    sent: list[int] = []
    source = Numbers(BATCHES * 4 * KEYS, 4 * KEYS)
    run_all(stream(root, source, target, channels), lambda: sent.append(len(server.requests())))
    sent = sent[WARM - 1 :]
    kinds = Counter(kind_of(method, path) for method, path, _ in server.requests()[sent[0] :])
    return {"served": [after - before for before, after in pairwise(sent)], "kinds": dict(kinds)}


def main() -> dict[str, Any]:
    results, goals = [], []
    with s3.faulty_server() as server:
        for sink in ("parquet", "none"):
            for channels in (2, 4, 8):
                found = measured(server, sink, channels)
                served = found["served"]
                name = f"requests a batch, sink {sink}, {channels} channels"
                results.append(
                    {
                        "name": name,
                        "unit": "requests",
                        "value": sum(served) / len(served),
                        "samples": served,
                        "kinds": {kind: n / len(served) for kind, n in found["kinds"].items()},
                    }
                )
                goal = 5 + 2 * channels
                goals.append(
                    {
                        "name": name,
                        "goal": f"at most {goal}",
                        "measured": max(served),
                        "ok": max(served) <= goal,
                    }
                )
    machine = {"python": platform.python_version(), "system": platform.platform()}
    return {"bench": "object-store", "machine": machine, "results": results, "goals": goals}


if __name__ == "__main__":
    text = json.dumps(main(), indent=1)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text + "\n")
    else:
        print(text)
