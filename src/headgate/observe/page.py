"""The vocabulary and the alerts as tables of a page in Markdown: `docs/operate/metrics.md` has them between marks."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.observe.rules import ALERTS
from headgate.observe.vocabulary import GROUPS, Kind, Label


def vocabulary_table() -> str:
    """Every metric, by groups."""
    return "\n".join(_vocabulary())


def _vocabulary() -> Iterator[str]:
    for group, metrics in GROUPS.items():
        yield f"### {group}"
        yield ""
        yield "| metric | kind | unit | labels | what it is |"
        yield "|---|---|---|---|---|"
        for metric in metrics:
            labels = ", ".join(label.name for label in metric.labels)
            yield f"| `{metric.name}` | {metric.kind.value} | {metric.unit} | {labels} | {metric.help} |"
        yield ""


def label_table() -> str:
    """Every label, and its values."""
    return "\n".join(_labels())


def _labels() -> Iterator[str]:
    yield "| label | values | what it is |"
    yield "|---|---|---|"
    seen: dict[Label, None] = {}
    for metrics in GROUPS.values():
        for metric in metrics:
            seen.update(dict.fromkeys(metric.labels))
    for label in seen:
        yield f"| `{label.name}` | {_values(label)} | {label.help} |"
    yield ""


def _values(label: Label) -> str:
    if label.below:
        return f"0 to {label.below - 1}, `other`"
    if not label.values:
        return "up to 64 letters, digits, `-`, `_`, `.`"
    if len(label.values) > 12:
        return f"{len(label.values)} names of `hg.errors`, `other`"
    return f"{', '.join(f'`{value}`' for value in label.values)}, `other`"


def bucket_line() -> str:
    """The buckets of histograms."""
    bounds = {m.buckets for metrics in GROUPS.values() for m in metrics if m.kind is Kind.histogram}
    (times,) = bounds
    return f"The buckets of times end at {', '.join(f'{bound:g}' for bound in times)}\nseconds.\n"


def alert_table() -> str:
    """Every alert, and what to do."""
    return "\n".join(_alerts())


def _alerts() -> Iterator[str]:
    yield "| alert | severity | when | what to do |"
    yield "|---|---|---|---|"
    for alert in ALERTS:
        when = alert.expr.replace("|", "\\|")
        hold = "" if alert.hold.startswith("0") else f", for {alert.hold}"
        yield f"| {alert.name} | {alert.severity} | `{when}`{hold} | {alert.remedy} |"
    yield ""


PARTS = {
    "vocabulary": vocabulary_table,
    "labels": label_table,
    "buckets": bucket_line,
    "alerts": alert_table,
}
"""The generated parts of the page, by the names of their marks."""


def filled(text: str) -> str:
    r"""The text with what stands between each pair of marks made anew.

    >>> "The buckets of times" in filled("<!-- buckets -->\nold\n<!-- end -->")
    True
    """
    for name, make in PARTS.items():
        mark, end = f"<!-- {name} -->\n", "<!-- end -->"
        if mark in text:
            before, _, rest = text.partition(mark)
            text = f"{before}{mark}{make()}{end}{rest.partition(end)[2]}"
    return text
