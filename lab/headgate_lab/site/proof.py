"""What pages show of results files and of the code, made from these: `python -m headgate_lab.site.proof`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headgate_lab.bench.table_page import marks, placed
from headgate_lab.papers.overview import NUMBERS, tallies
from headgate_lab.papers.results import RESULTS as PAPERS
from headgate_lab.papers.results import read, rows
from headgate_lab.site import limits

RESULTS = Path("benchmarks/results")
COMPARED = {
    "running aggregate": ("direct-aggregate", "running aggregate"),
    "running aggregate, text keys": ("direct-strings", "running aggregate, string keys"),
    "a batch of 1,000 rows": ("direct-small", "running aggregate, 1,000-row batches"),
    "a Python function with state (z-score)": ("direct-kernel", "z-score kernel"),
    "the mean of each key's last 100 rows": ("direct-history", "history window, k = 100"),
    "drop duplicates": ("direct-operators", "dedup within the watermark"),
    "tumbling windows": ("direct-operators", "tumbling windows"),
    "sessions": ("direct-operators", "session windows"),
    "from JSON in Kafka to Parquet": ("kafka", "JSON records from Kafka, aggregated by key, to Parquet"),
}
"""What is compared with Spark, and where it stands."""


def proof(root: Path) -> str:
    """The table of the README: three numbers each about speed, reliability and scale, and the claims of the papers."""
    aggregate, kernel, small = (
        _of(root, *COMPARED[name])
        for name in ("running aggregate", "a Python function with state (z-score)", "a batch of 1,000 rows")
    )
    chaos, planted, kills = (_read(root, name) for name in ("chaos", "chaos-plant", "kafka-delta-kills"))
    state = next(one for one in _read(root, "direct-state")["results"] if "50,000,000" in one["name"])
    queries = next(
        one
        for one in _read(root, "service")["results"]
        if one["name"] == "1,000,000 queries: a batch, 95th percentile"
    )
    change = next(
        one for one in _read(root, "rescale")["results"] if one["name"] == "20M keys: longest pause"
    )
    faults, keys = sum(chaos["faults"].values()), state["ratio"]
    measured = (
        (
            "speed, beside Spark on two cores",
            f"running aggregate: {_millions(aggregate['value'])} rows/s, {aggregate['ratio']:.1f} times Spark's",
        ),
        (
            "",
            f"a Python function with state: {_millions(kernel['value'])} rows/s, {kernel['ratio']:.0f} times Spark's",
        ),
        ("", f"a batch of 1,000 rows: {small['value']:.0f} ms, Spark {small['rival_value']:.0f} ms"),
        (
            "reliability",
            f"{chaos['histories']:,} simulated histories with {faults:,} faults: "
            f"{chaos['failed']} with a row lost, doubled or out of order",
        ),
        (
            "",
            f"{planted['caught']} of {planted['planted']} mistakes that we planted in the code "
            "were found by that simulator",
        ),
        (
            "",
            f"{kills['kills']} kills from Kafka to Delta: {kills['lost']} rows lost, "
            f"{kills['doubled']} doubled, of {kills['records']:,}",
        ),
        (
            "scale",
            f"50 million keys that a batch does not touch: it takes {keys:.2f} times as long as beside a million",
        ),
        (
            "",
            f"a million standing queries on two cores: a batch of 50,000 rows in {queries['value']:.1f} s (p95)",
        ),
        (
            "",
            f"20 million keys, another number of channels: the longest batch takes {change['value']:.1f} s; "
            f"Spark, stopped and started again, {change['rival_value']:.0f} s",
        ),
        ("the papers, run again", f"[{papers(root)}](docs/research/index.md#what-holds)"),
    )
    return "\n".join(["| | measured |", "|---|---|", *(f"| {head} | {text} |" for head, text in measured)])


def papers(root: Path) -> str:
    """How many claims of the papers hold. A claim that does not hold, or that cannot be checked, has its reason on its page."""
    counted = tallies(rows(read(root / PAPERS)))
    held, claims = sum(len(tally.held) for tally in counted), sum(tally.claims for tally in counted)
    return f"{NUMBERS[len(counted)]}, {claims} claims, {held} hold, each of the rest with its reason"


def compared(root: Path) -> str:
    """The table of the page that compares."""
    lines = ["| | Headgate | Spark | ratio |", "|---|---|---|---|"]
    for name, (file, result) in COMPARED.items():
        one = _of(root, file, result)
        ours, theirs = (
            (f"{value:,.0f} ms" if one["unit"] == "ms" else f"{value:,.0f} rows/s")
            for value in (one["value"], one["rival_value"])
        )
        lines.append(f"| {name} | {ours} | {theirs} | {one['ratio']:.3g}x |")
    machine = _read(root, "direct-aggregate")["machine"]
    said = (
        f"On {machine['cores']} cores ({machine['cpu']}), Spark {machine['spark']}, Python {machine['python']}; "
        "medians, all samples in `benchmarks/results/`."
    )
    return "\n".join([*lines, "", said])


def _of(root: Path, file: str, name: str) -> Mapping[str, Any]:
    """The result with this name beside native Spark."""
    results: list[dict[str, Any]] = _read(root, file)["results"]
    return next(one for one in results if one["name"] == name and "native" in one["rival"])


def _read(root: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _millions(value: float) -> str:
    return f"{value / 1e6:.1f} million"


PAGES = {
    Path("README.md"): ("proof", proof),
    Path("docs/compare.md"): ("compare", compared),
    Path("docs/reference/configuration.md"): ("limits", limits.tables),
}


def written(text: str, name: str, block: str) -> str:
    """A page with its made block anew."""
    return placed(text, *marks(name), block)


def main() -> None:
    """Write the pages of this checkout."""
    root = Path.cwd()
    for page, (name, made) in PAGES.items():
        path = root / page
        path.write_text(written(path.read_text(encoding="utf-8"), name, made(root)), encoding="utf-8")


if __name__ == "__main__":
    main()
