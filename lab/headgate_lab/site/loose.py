"""Figures on a page that look measured and come from no results file.

What is between the marks of `headgate_lab.site.figures` comes from one. Code is run, or is an example. Everything else
that looks like a measurement (a number with a unit, a decimal, a count that is not round) has to be in
`not_measured.toml`, which says what it is instead: a limit, a default, a setting, a goal, an example, or what
a paper says.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headgate_lab.site.figures import MARK

KINDS = ("limit", "default", "setting", "goal", "example", "paper", "version", "fact")
"""What a number can be that was not measured. A fact is arithmetic, or is true by construction."""
ALLOWED = Path(__file__).with_name("not_measured.toml")

_UNIT = (
    r"ns|µs|us|ms|s|seconds?|minutes?|hours?|times|kB|KB|MB|GB|TB|KiB|MiB|GiB|bytes|rows/s|records/s|mbps|"
    r"requests?|rows a second|records a second|percent|million|billion"
)
FIGURE = re.compile(
    rf"(?<![\w.,/#^-])(?:\d[\d,]*(?:\.\d+)?(?:x\b|\s?%|M?/s\b|k\b|[\s-](?:{_UNIT})\b)|\d[\d,]*\.\d+|\d{{1,3}}(?:,\d{{3}})*,(?!000)\d{{3}})"
)
_HIDDEN = (
    re.compile(r"^( *)(```|~~~).*?^ *\2 *$", re.S | re.M),  # code
    re.compile(r"<!-- ([\w ]+): begin -->.*?<!-- \1: end -->", re.S),  # made tables
    re.compile(r"<!-- (?:alerts|buckets|labels|vocabulary|by script/matrix) -->.*?<!-- end -->", re.S),
    MARK,
    re.compile(r"<!--.*?-->", re.S),
    re.compile(r"`[^`]*`"),  # code in a sentence
    re.compile(r"(?<=\])\([^)]*\)"),  # the target of a link
    re.compile(r"\b\d+\.\d+\.\d+\b"),  # versions
    re.compile(
        r"\b(?:Spark|Structured Streaming|pyspark|Python|Java|Kafka|Sail|Prometheus|TLS|HTTP|Headgate|Flink|Feldera|RisingWave|"
        r"Bytewax|Pathway|Quix Streams|[vV]ersions?|[sS]ections?|Figures?|Eq\.|Table)"
        r"(?: Connect)? \d+(?:\.\d+)*(?:(?:,| and| to| or) \d+\.\d+)*"
    ),
)


@dataclass(frozen=True)
class Loose:
    """A figure that comes from no results file."""

    page: str
    line: int
    figure: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.figure!r} in: {self.sentence}"


def hidden(text: str) -> str:
    """A page with everything blanked that cannot be a loose figure; every other character stays where it is.

    >>> hidden("a `1 ms` b <!--= f; n; value; .2f -->2 ms<!--/--> c 3 ms").split()
    ['a', 'b', 'c', '3', 'ms']
    """
    for pattern in _HIDDEN:
        text = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return text


def figures(text: str) -> Iterator[re.Match[str]]:
    """What looks measured.

    >>> [one[0] for one in figures("1.56x, 0.86 s, 22,300/s, 64 MiB, 12%, 1,382 moves; Spark 4.3, 8 channels, 10,000 rows")]
    ['1.56x', '0.86 s', '22,300/s', '64 MiB', '12%', '1,382']
    """
    return FIGURE.finditer(hidden(text))


def loose(page: str, text: str, allowed: Mapping[str, list[str]]) -> tuple[list[Loose], list[str]]:
    """The figures of a page that no results file and no entry of the list explains, and the entries that explain none."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for entry in (entry for entries in allowed.values() for entry in entries):
        places = re.finditer(r"\s+".join(map(re.escape, entry.split())), text)
        spans[entry] = [place.span() for place in places]
    used: set[str] = set()
    found = []
    for one in figures(text):
        covers = [
            entry for entry, at in spans.items() if any(a <= one.start() and one.end() <= b for a, b in at)
        ]
        used.update(covers)
        if not covers:
            start, end = text.rfind("\n", 0, one.start()) + 1, text.find("\n", one.end())
            line = text.count("\n", 0, one.start()) + 1
            found.append(Loose(page, line, one[0], text[start : end if end >= 0 else None].strip()))
    return found, [entry for entry in spans if entry not in used]


def allowed(file: Path = ALLOWED) -> dict[str, dict[str, list[str]]]:
    """For each page, the kinds of numbers that were not measured, and the words around each."""
    return tomllib.loads(file.read_text(encoding="utf-8"))
