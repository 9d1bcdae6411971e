"""The reference of the Python interface, made from signatures and docstrings.

Every public name of `headgate` is on exactly one page; one that no page lists is on that of stages. A name or method without a
docstring is a problem.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from pkgutil import resolve_name
from typing import Any

import headgate
from headgate.operators.base import Operator

PAGES: dict[str, tuple[str, str, list[str]]] = {
    "streams": (
        "Streams and queries",
        "What you use to write, start and steer a direct stream. [Direct streams](../direct.md) has examples.",
        [
            "configure",
            "read",
            "headgate.spark.direct.read:Reader",
            "headgate.spark.direct.stream:Stream",
            "headgate.spark.direct.stream:Keyed",
            "headgate.spark.direct.stream:Written",
            "headgate.spark.direct.query:Query",
        ],
    ),
    "operators": (
        "Operators and kernels",
        "What runs on the rows of each key. [Operators](../operators.md) and [kernels](../kernels.md) have examples.",
        [
            "Aggregate", "agg", "Windows", "tumbling", "hopping", "session", "Dedup", "Join", "HashJoin", "TopK",
            "HistoryWindow", "Vectorised", "kernel", "kernels",
        ],
    ),
    "stages": (
        "Stages, settings and gates",
        "The drop-in for `foreachBatch`, the settings that both ways in share, and gates.",
        ["Stage", "Pipeline", "two_streams", "Routing", "Limits", "Expansion", "Gate", "Completed", "bounded", "FanOut"],
    ),
    "sources": ("Sources", "Where rows come from.", ["sources"]),
    "sinks": ("Sinks", "Where results go.", ["sinks"]),
    "policies": ("Policies", "Who decides where keys go. [Policies](../../understand/policies.md) compares them.", ["policies"]),
    "observe": ("Metrics, events, logs", "How to watch a query. [Metrics](../../operate/metrics.md) has examples.", ["observe"]),
    "service": ("Service client", "The Python client of [the query service](../service.md).", ["service"]),
    "hosting": ("Placement", "Which server hosts which query. [Placement](../../understand/placement.md) explains it.", ["hosting"]),
    "testing": ("Testing and the doctor", "What you need to test a job without Spark, and to record one.", ["testing", "doctor", "errors"]),
}  # fmt: skip
"""File -> title, what it is, and the names on it."""


def pages(problems: list[str]) -> dict[str, str]:
    """The pages of the reference."""
    shown = [name for _, _, names in PAGES.values() for name in names if ":" not in name]
    problems += [
        f"reference/api: hg.{name} is not public" for name in sorted(set(shown) - set(headgate.__all__))
    ]
    unlisted = sorted(set(headgate.__all__) - set(shown))
    made = {}
    for file, (title, what, names) in PAGES.items():
        every = [*names, *unlisted] if file == "stages" else names
        parts = [part for name in every for part in _named(name, problems)]
        made[f"reference/api/{file}.md"] = "\n".join([f"# {title}\n", f"{what}\n", *parts])
    return made


def _named(name: str, problems: list[str]) -> Iterator[str]:
    """A public name, with all that belongs to it."""
    if ":" in name:
        yield from _value(name.rpartition(":")[2], resolve_name(name), problems, made_by_user=False)
        return
    value = getattr(headgate, name)
    if not inspect.ismodule(value):
        yield from _value(f"hg.{name}", value, problems)
        return
    yield f"## hg.{name}\n"
    yield f"{_text(value, f'hg.{name}', problems)}\n"
    if name == "errors":
        yield "[Errors](../errors.md) lists them, with remedies.\n"
        return
    for inner in _public(value):
        found = getattr(value, inner)
        if inspect.isclass(found) or inspect.isroutine(found):
            yield from (_deeper(part) for part in _value(f"hg.{name}.{inner}", found, problems))


def _public(module: Any) -> list[str]:
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return [
        name for name, value in vars(module).items() if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"
    ]  # fmt: skip


def _deeper(part: str) -> str:
    return re.sub(r"^(#+) ", r"#\1 ", part)


def _value(name: str, value: Any, problems: list[str], *, made_by_user: bool = True) -> Iterator[str]:
    """A class or a function; what headgate makes itself is shown without its constructor."""
    yield f"## {name}\n"
    signature = _signature(name, value) if made_by_user else ""
    if signature:
        yield f"```python\n{signature}\n```\n"
    yield f"{_text(value, name, problems)}\n"
    if inspect.isclass(value):
        for method, what in _members(value):
            yield f"### {name.rpartition('.')[2]}.{method}\n"
            if not isinstance(what, property):
                yield f"```python\n{_signature(method, what)}\n```\n"
            yield f"{_text(what, f'{name}.{method}', problems)}\n"


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that headgate defines, in the order of the source.

    What every operator has is for the stage that runs it, and not for its user.
    """
    ours = set(vars(Operator)) if issubclass(value, Operator) else set()
    seen: dict[str, Any] = {}
    for owner in reversed(value.__mro__):
        if not owner.__module__.startswith("headgate"):
            continue
        for name, what in vars(owner).items():
            if (
                name.startswith("_")
                or name in ours
                or (
                    not isinstance(what, property | staticmethod | classmethod)
                    and not inspect.isfunction(what)
                )
            ):
                continue
            seen[name] = what if isinstance(what, property) else getattr(value, name)
    yield from seen.items()


def _signature(name: str, value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    if inspect.isclass(value) and issubclass(value, BaseException):
        return ""
    kept = []
    for one in signature.parameters.values():
        if one.name == "self":
            continue
        if one.default is not one.empty:
            one = one.replace(default=_Shown(_default(value, one)))
        kept.append(one)
    plain = signature.replace(parameters=kept)
    text = f"{name}{_without_quotes(str(plain))}"
    if len(text) <= 88:
        return text
    shown = ",\n".join(f"    {_without_quotes(str(one))}" for one in _with_marks(kept))
    back = (
        ""
        if plain.return_annotation is plain.empty
        else f" -> {_without_quotes(str(plain.return_annotation))}"
    )
    return f"{name}(\n{shown},\n){back}"


def _with_marks(kept: list[inspect.Parameter]) -> Iterator[object]:
    marked = False
    for one in kept:
        if one.kind is one.VAR_POSITIONAL:
            marked = True
        if one.kind is one.KEYWORD_ONLY and not marked:
            marked = True
            yield "*"
        yield one


class _Shown:
    """A default value, as it is shown."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _default(value: Any, one: inspect.Parameter) -> str:
    if dataclasses.is_dataclass(value) and "factory" in repr(one.default):
        (field,) = [field for field in dataclasses.fields(value) if field.name == one.name]
        made = field.default_factory() if field.default_factory is not dataclasses.MISSING else ...
        return repr(made)
    text = repr(one.default)
    return "..." if "<" in text else text


def _without_quotes(text: str) -> str:
    return re.sub(r"(?<=[:>] )'([^']*)'", r"\1", text)


def _text(value: Any, name: str, problems: list[str]) -> str:
    """A docstring as Markdown."""
    doc = inspect.getdoc(value)
    if not doc:
        problems.append(f"reference/api: {name} has no docstring")
        return ""
    doc = doc.replace("``", "`")
    lines, inside = [], False
    for line in doc.splitlines():
        prompt = line.lstrip().startswith((">>>", "..."))
        if prompt and not inside:
            lines.append("```pycon")
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    if inside:
        lines.append("```")
    return re.sub(r"<([\w ./-]+)>", r"&lt;\1&gt;", "\n".join(lines))
