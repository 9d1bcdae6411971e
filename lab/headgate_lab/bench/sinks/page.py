"""The figures of docs/reference/lakehouse.md, docs/reference/databases.md and docs/reference/kafka.md, made from the results files:
`python -m headgate_lab.bench.sinks.page`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headgate_lab.bench.table_page import marks, placed, wrapped

SINKS, KILLS = Path("benchmarks/results/sinks.json"), Path("benchmarks/results/kafka-delta-kills.json")
PAGES = {
    Path("docs/reference/lakehouse.md"): ("Parquet", "Delta", "Iceberg"),
    Path("docs/reference/databases.md"): ("Parquet", "PostgreSQL", "SQLite"),
    Path("docs/reference/kafka.md"): (),
}
"""The pages, and the sinks of their tables."""


def table(bench: dict[str, Any], kinds: tuple[str, ...]) -> str:
    """Milliseconds of a batch and rows a second for each size, and the time beside the Parquet sink's."""
    batches = [result for result in bench["results"] if result["unit"] == "ms"]
    sizes = list(dict.fromkeys(result["name"].split(", ", 1)[-1].rsplit(", ", 1)[-1] for result in batches))
    heads = [size.removesuffix(": a batch") for size in sizes]
    lines = [
        "| | " + " | ".join(f"a batch of {head} | beside Parquet" for head in heads) + " |",
        "|---" * (1 + 2 * len(sizes)) + "|",
    ]
    found = {result["name"]: result for result in batches}
    rows = dict.fromkeys(name.rsplit(", ", 1)[0] for name in found)
    for row in rows:
        if row.split(",")[0] not in kinds:
            continue
        cells = [row]
        for size in sizes:
            result = found[f"{row}, {size}"]
            count = int(size.split(" rows")[0].replace(",", ""))
            cells.append(f"{result['value']:,.0f} ms, {_rate(1e3 * count / result['value'])}")
            cells.append("" if result["ratio"] is None else f"{result['ratio']:.2f}x")
        lines.append(f"| {' | '.join(cells)} |")
    samples = len(next(iter(batches[0]["samples"].values())))
    machine = bench["machine"]
    said = (
        f"Medians of {samples} batches, from reading the rows to the published output, on {machine['cores']} cores; "
        f"Spark {machine['spark']}, Python {machine['python']}."
    )
    said += " The sizes were small: these figures say that it runs, not how fast." if machine["quick"] else ""
    return "\n".join([*lines, "", wrapped(said)])


def _rate(value: float) -> str:
    return f"{value / 1e3:,.0f}k rows/s" if value >= 9_500 else f"{value / 1e3:.1f}k rows/s"


def kills(told: dict[str, Any]) -> str:
    """How many kills there were, of what, and what was lost."""
    kinds = ", ".join(f"{count} of the {kind}" for kind, count in told["kinds"].items())
    said = (
        f"{told['kills']} kills ({kinds}) in {told['lives']} lives of drivers, with the seed {told['seed']}: of {told['records']:,} "
        f"records, in {told['batches']:,} batches of three queries, {told['lost']} rows were lost and {told['doubled']} doubled."
    )
    return wrapped(said)


def written(text: str, kinds: tuple[str, ...], root: Path = Path()) -> str:
    """A page with the figures in their places."""
    if kinds:
        text = placed(text, *marks("sinks"), table(json.loads((root / SINKS).read_text()), kinds))
    if marks("kills")[0] in text:
        text = placed(text, *marks("kills"), kills(json.loads((root / KILLS).read_text())))
    return text


def main() -> None:
    """Write the figures into the pages."""
    for page, kinds in PAGES.items():
        page.write_text(written(page.read_text(encoding="utf-8"), kinds), encoding="utf-8")


if __name__ == "__main__":
    main()
