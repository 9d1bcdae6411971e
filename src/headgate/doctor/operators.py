"""Stateful operators of native Spark: how they are recognised, and what Headgate has in their place."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headgate.doctor.application import Batch, Stage


@dataclass(frozen=True)
class Kind:
    """A kind of stateful operator.

    `combines` says that Headgate adds up rows of a key before they are sent, so that a hot key costs
    its channel no more than others. `port` is the code that takes its place.
    """

    name: str
    native: str
    combines: bool
    port: str
    note: str = ""


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "aggregate",
            "groupBy().agg()",
            True,
            '.key_by({key}).aggregate(n=agg.count(), total=agg.sum("..."))',
            "each batch emits the keys that it touched, as update mode does",
        ),
        Kind(
            "windows",
            "groupBy(window()).agg()",
            True,
            '.key_by({key}).windows(hg.tumbling("..."), on="...", delay="...", n=agg.count())',
            "delay is the watermark's; hg.hopping(size, every=...) for sliding windows",
        ),
        Kind(
            "sessions",
            "groupBy(session_window()).agg()",
            False,
            '.key_by({key}).windows(hg.session("..."), on="...", delay="...", n=agg.count())',
            "delay is the watermark's",
        ),
        Kind(
            "dedup",
            "dropDuplicates()",
            False,
            '.key_by({key}).dedup(on="...", delay="...")',
            "without a watermark: .dedup()",
        ),
        Kind(
            "join",
            "stream-stream join",
            False,
            '.key_by({key}).join(other.key_by({key}), time="...", before="...", after="...", delay="...")',
            "both sides have the same key names; rename with select()",
        ),
        Kind(
            "kernel",
            "transformWithState, applyInPandasWithState",
            False,
            ".key_by({key}).apply(kernel)",
            'kernel is a function of a row and its key\'s state, with @hg.kernel(state={"n": int}, output={"z": float})',
        ),
    )
}

_NODES = (
    ("SessionWindowStateStoreSave", "sessions"),
    ("StateStoreSave", "aggregate"),
    ("StreamingDeduplicate", "dedup"),
    ("StreamingSymmetricHashJoin", "join"),
    ("FlatMapGroupsInPandasWithState", "kernel"),
    ("FlatMapGroupsWithState", "kernel"),
    ("TransformWithState", "kernel"),
)
"""Plan nodes that hold state, by the beginning of their names, and the kind of each."""

_PROGRESS = (
    ("sessionwindow", "sessions"),
    ("statestoresave", "aggregate"),
    ("dedupe", "dedup"),
    ("symmetrichashjoin", "join"),
    ("flatmapgroups", "kernel"),
    ("applyinpandas", "kernel"),
    ("transformwithstate", "kernel"),
)
"""The same for the names that progress events use, in lower case."""

_KEY = re.compile(r"\[([^\]]*)\]")
_ID = re.compile(r"#\d+L?$")


def stateful_nodes(stage: Stage) -> list[tuple[str, str]]:
    """The plan nodes of a stage that hold state, with their texts."""
    return [(name, text) for name, text in stage.nodes if any(name.startswith(each) for each, _ in _NODES)]


def is_stateful(stage: Stage) -> bool:
    """Whether a stage keeps state."""
    return bool(stateful_nodes(stage))


def kind_of_node(name: str, text: str) -> str:
    """The kind of a plan node.

    >>> kind_of_node("StateStoreSave", "StateStoreSave [user#1L, window#2-T1000ms]")
    'windows'
    """
    kind = next(kind for start, kind in _NODES if name.startswith(start))
    if kind == "aggregate" and "window" in (_KEY.search(text) or [""])[0]:
        return "windows"
    return kind


def kind_of_operator(name: str) -> str:
    """The kind of an operator in a progress event; empty if it is unknown.

    >>> kind_of_operator("transformWithStateInPySparkExec")
    'kernel'
    """
    low = name.lower()
    return next((kind for start, kind in _PROGRESS if low.startswith(start)), "")


def key_columns(text: str) -> tuple[str, ...]:
    """The names of the key columns in the text of a plan node, without windows.

    >>> key_columns("StateStoreSave [user#1L, window#2-T1000ms], state info [")
    ('user',)
    """
    found = _KEY.search(text)
    names = [] if found is None else [name.strip() for name in found[1].split(",")]
    plain = [_ID.sub("", name.split("-T")[0]) for name in names]
    return tuple(name for name in plain if name.isidentifier() and "window" not in name)


def kinds_of(batch: Batch) -> list[str]:
    """The kinds of a batch's stateful operators, by its stages or else by its progress."""
    found = [kind_of_node(*node) for stage in batch.stages for node in stateful_nodes(stage)]
    return list(
        dict.fromkeys(found or [kind for op in batch.operators if (kind := kind_of_operator(op.name))])
    )
