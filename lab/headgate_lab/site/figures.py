"""All figures of the pages, made from the results files: `python -m headgate_lab.site.figures`.

A table stands between `<!-- NAME: begin -->` and `<!-- NAME: end -->`; its bench has the writer. A figure in a sentence
stands between marks that say where it comes from: the results file, the name of a result or goal (with `@ RIVAL` if it
has several), the field, and a format (with `k` or `M` at its end: in thousands, in millions):

    <!--= tenants; the same, median; ratio; .2f -->1.07<!--/-->

`headgate_lab.site.loose` finds the figures that stand outside of such marks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from headgate_lab.bench import (
    codecs_page,
    control_page,
    observe_page,
    pipeline_page,
    policies_page,
    rebalance_page,
    requests_page,
    service_page,
    stages_page,
    tenants_page,
)
from headgate_lab.bench.direct import page as direct_page
from headgate_lab.bench.direct.merge import merged
from headgate_lab.bench.doctor import page as doctor_page
from headgate_lab.bench.faucet import page as faucet_page
from headgate_lab.bench.kafka import page as kafka_page
from headgate_lab.bench.placement import page as placement_page
from headgate_lab.bench.rescale import page as rescale_page
from headgate_lab.bench.sinks import page as sinks_page
from headgate_lab.bench.table_page import marks, placed, standard, wrapped
from headgate_lab.chaos import page as chaos_page
from headgate_lab.papers import page as papers_page
from headgate_lab.site import proof

RESULTS = Path("benchmarks/results")
MARK = re.compile(r"<!--= ([^;>]+); ([^;>]+); (\w+); ([^;> ]+) -->(.*?)<!--/-->", re.S)
SCALES = {"k": 1e3, "M": 1e6}
BENCHES: tuple[Any, ...] = (
    codecs_page,
    doctor_page,
    faucet_page,
    kafka_page,
    observe_page,
    pipeline_page,
    placement_page,
    policies_page,
    rebalance_page,
    requests_page,
    rescale_page,
    service_page,
    tenants_page,
)
"""Modules with `PAGE`, `RESULTS` and `written(text, report)`."""
PLAIN = {
    "default": Path("docs/research/performance.md"),
    "join": Path("docs/reference/joins.md"),
    "partitioning": Path("docs/research/partitioning.md"),
    "placement speed": Path("docs/research/placement.md"),
    "rebalance": Path("docs/research/flux.md"),
    "skew": Path("docs/research/partitioning.md"),
}
"""Benches (and parts of them) whose table has a line for each result and each goal, and needs no module."""


def writers(root: Path) -> Iterator[tuple[Path, Callable[[str], str]]]:
    """Every page with a table, and what writes the table."""
    for bench in BENCHES:
        if (root / bench.RESULTS).exists():
            yield bench.PAGE, partial(_told, bench=bench, report=_report(root / bench.RESULTS))
        else:
            yield bench.PAGE, partial(placed, begin=bench.BEGIN, end=bench.END, table=_missing(bench.RESULTS))
    for name, page in PLAIN.items():
        file = root / RESULTS / f"{name.replace(' ', '-')}.json"
        table = standard(_report(file)) if file.exists() else _missing(file)
        begin, end = marks(f"bench {name}")
        yield page, partial(placed, begin=begin, end=end, table=table)
    direct = merged(root / RESULTS)
    yield direct_page.PAGE, partial(direct_page.written, report=direct)
    yield stages_page.PAGE, partial(stages_page.written, report=direct)
    yield control_page.PAGE, partial(control_page.written, root=root)
    report, planted = chaos_page.results(root)
    for page in chaos_page.PAGES:
        yield page, partial(chaos_page.written, report=report, planted=planted)
    for page, kinds in sinks_page.PAGES.items():
        yield page, partial(sinks_page.written, kinds=kinds, root=root)
    for page, (name, block) in papers_page.pages(root).items():
        yield page, partial(papers_page.written, name=name, block=block)
    for page, (name, made) in proof.PAGES.items():
        yield page, partial(proof.written, name=name, block=made(root))


def written(root: Path) -> dict[Path, str]:
    """Every page with figures, as the results files have it."""
    texts = {
        page.relative_to(root): page.read_text(encoding="utf-8")
        for page in [root / "README.md", *(root / "docs").rglob("*.md")]
    }
    for page, write in writers(root):
        texts[page] = write(texts[page])
    return {page: in_sentences(text, root / RESULTS) for page, text in texts.items()}


def in_sentences(text: str, results: Path) -> str:
    """A page with the figures of its sentences."""

    def made(mark: re.Match[str]) -> str:
        file, name, field, form = mark.group(1, 2, 3, 4)
        shown = figure(_report(results / f"{file}.json"), name, field, form)
        return f"<!--= {file}; {name}; {field}; {form} -->{shown}<!--/-->"

    return MARK.sub(made, text)


def figure(report: dict[str, Any], name: str, field: str, form: str) -> str:
    """One figure of a report.

    >>> told = {"results": [{"name": "a", "rival": "b", "ratio": 0.5}, {"name": "a", "rival": "c", "ratio": 2e6}]}
    >>> figure(told, "a @ b", "ratio", ".0%"), figure(told, "a @ c", "ratio", ".1fM")
    ('50%', '2.0')
    """
    what, _, rival = name.partition(" @ ")
    found = [
        one
        for part in ("results", "goals")
        for one in report.get(part, ())
        if one["name"] == what and field in one and (not rival or one.get("rival") == rival)
    ]
    values = {one[field] for one in found} if found else {report[what][field]} if what in report else set()
    if len(values) != 1:
        raise ValueError(f"{name!r} has {len(values)} values of {field!r} in its results file, not one")
    (value,) = values
    scale = SCALES.get(form[-1])
    return format(value / scale, form[:-1]) if scale else format(value, form)


@cache
def _report(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _told(text: str, bench: Any, report: dict[str, Any]) -> str:
    try:
        told: str = bench.written(text, report)
    except KeyError as lacks:
        raise ValueError(
            f"{bench.RESULTS} has no {lacks}: it is older than its bench, which has to run again"
        ) from lacks
    return told


def _missing(file: Path) -> str:
    bench, _, part = file.stem.partition("-")
    only = f" --only {part}" if part else ""
    return wrapped(
        f"This version has not been measured yet. `headgate bench {bench}{only} --json > {RESULTS / file.name}` measures it."
    )


def main() -> None:
    """Write the pages of this checkout."""
    for page, text in written(Path.cwd()).items():
        if page.read_text(encoding="utf-8") != text:
            print(page)
            page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
