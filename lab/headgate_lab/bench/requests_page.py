"""What a batch costs on an object store, in `docs/reference/object-stores.md`, from the results file:
`python -m headgate_lab.site.figures`.

The file is what `python -m tests.storage.s3_costs` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headgate_lab.bench.table_page import marks, placed, wrapped

PAGE, RESULTS = Path("docs/reference/object-stores.md"), Path("benchmarks/results/object-store.json")
BEGIN, END = marks("requests")
DOLLARS, SECONDS = 5e-6, 86_400
"""The price of a request that writes or lists, and the batches of a day at one a second."""


def table(report: Mapping[str, Any]) -> str:
    """Requests of a batch by the number of channels, and what they cost."""
    found = {one["name"]: one for one in report["results"]}
    sinks = list(dict.fromkeys(name.split(", ")[1] for name in found))
    counts = list(dict.fromkeys(name.rpartition(", ")[2] for name in found))
    named = {"sink parquet": "Parquet sink"}
    heads = [f"{named.get(sink, 'no output')}: mean | most" for sink in sinks]
    lines = [f"| channels | {' | '.join(heads)} |", "|---" * (1 + 2 * len(sinks)) + "|"]
    for channels in counts:
        ones = [found[f"requests a batch, {sink}, {channels}"] for sink in sinks]
        cells = [f"{one['value']:.1f} | {max(one['samples'])}" for one in ones]
        lines.append(f"| {channels.removesuffix(' channels')} | {' | '.join(cells)} |")
    last = found[f"requests a batch, {sinks[0]}, {counts[-1]}"]["kinds"]
    paid = last["put"] + last["list"]
    said = (
        f"**In money.** S3 charges much more for a request that writes than for one that reads. A listing costs as much as a write, "
        f"and a delete costs nothing. With {counts[-1]}, a batch makes {last['put']:.0f} writes and "
        f"{last['list']:.0f} listing. At {1e6 * DOLLARS:.0f} dollars for a million such requests, one batch a second costs about "
        f"{paid * DOLLARS * SECONDS:.2f} dollars a day, and one batch every ten seconds costs {paid * DOLLARS * SECONDS / 10:.2f}."
    )
    return "\n".join([*lines, "", wrapped(said)])


def written(text: str, report: Mapping[str, Any]) -> str:
    """The page with the table in its place."""
    return placed(text, BEGIN, END, table(report))
