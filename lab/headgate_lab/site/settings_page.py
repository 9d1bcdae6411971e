"""The page of the service's settings: every option of its configuration file, its default, and what it does.

Made from the dataclasses that read the file, so that no option can be missing. A field without a sentence of its own
stands beside the one before it.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import MISSING, fields
from textwrap import dedent
from typing import Any

from typer.main import get_command

from headgate.cli import app
from headgate.service.access import Access, OidcConfig
from headgate.service.config import OPTIONS, ServiceConfig
from headgate.service.edge_limits import EdgeLimits
from headgate.service.flow import Flow
from headgate.service.tenant_limits import SETTABLE
from headgate.sql.limits import Limits

HEAD = """# Settings of the service

Every option of the file that you give to `headgate serve --config service.toml`, with its default. Names that
end with `_s` are seconds, with `_bytes` bytes. An option that does not exist raises `ConfigError`, which lists those
that do. [Run the service](../operate/service.md#configuration) has an example, and the sections that have no
defaults: `[streams.NAME]`, `[functions.NAME]`, `[targets.NAME]`, `[webhooks]` and `[spark]`.
"""


def pages(problems: list[str]) -> dict[str, str]:
    """The page; an option that nothing is said about is a problem."""
    return {"reference/service-settings.md": "\n".join(_page(problems))}


def _page(problems: list[str]) -> Iterator[str]:
    yield HEAD
    yield "## [service]\n"
    yield "Some of them are options of `headgate serve` too. The file wins.\n"
    yield from _table([*_of_command(problems), *_of(ServiceConfig, only=OPTIONS)])
    yield "How much a batch takes, and how much may wait:\n"
    yield from _table(_of(Flow))
    yield "## [limits]\n"
    yield (
        "Limits of one query and of one tenant. An admin can give a tenant its own "
        f"{', '.join(f'`{name}`' for name in SETTABLE)} (`headgate usage --tenant NAME --limit NAME=VALUE`).\n"
    )
    yield from _table(_of(Limits))
    yield "## [http]\n"
    yield "How the service is reached:\n"
    yield from _table(_of(Access, skip={"oidc"}))
    yield "Limits of connections and requests:\n"
    yield from _table(_of(EdgeLimits))
    yield "## [oidc]\n"
    yield "Tokens of an [identity provider](../operate/service-security.md#tokens-of-an-identity-provider).\n"
    yield from _table(_of(OidcConfig))


Row = tuple[str, str, str]


def _table(rows: list[Row]) -> Iterator[str]:
    yield "| option | default | |"
    yield "|---|---|---|"
    for names, default, said in rows:
        yield f"| {names} | {default} | {said} |"
    yield ""


def _of(of: Any, *, only: set[str] | None = None, skip: set[str] | None = None) -> list[Row]:
    """The rows of a dataclass."""
    said = sentences(of)
    rows: list[Row] = []
    for field in fields(of):
        if field.name in (skip or ()) or (
            only is not None and (field.name not in only or field.name not in said)
        ):
            continue
        default = _shown(field.default)
        if field.name in said or not rows:
            rows.append((f"`{field.name}`", default, said.get(field.name, "")))
        else:
            names, defaults, text = rows[-1]
            rows[-1] = (f"{names}, `{field.name}`", f"{defaults}, {default}", text)
    return rows


def _of_command(problems: list[str]) -> list[Row]:
    """The options of the command line that the file may set, and that the dataclass says nothing about."""
    tree: Any = get_command(app)
    params = {param.name: param for param in tree.commands["serve"].params}
    told = sentences(ServiceConfig)
    rows = []
    for name in sorted(OPTIONS - set(told)):
        param = params.get(name)
        if param is None or not param.help:
            problems.append(f"reference/service-settings.md: nothing says what {name} is")
            continue
        rows.append((f"`{name}`", _shown(param.default), " ".join(param.help.split())))
    return rows


def _shown(default: Any) -> str:
    if default is MISSING or default is None or default in ("", ()):
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ", ".join(f"`{one}`" for one in default)
    if isinstance(default, int | float):
        return (f"{default:,}" if default >= 10_000 else str(default)).removesuffix(".0")
    return f"`{default}`"


def sentences(of: Any) -> dict[str, str]:
    """What stands below each field of a class.

    >>> sentences(EdgeLimits)["send_s"]
    'How long a connection may take nothing of an answer.'
    """
    (tree,) = ast.parse(dedent(inspect.getsource(of))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
        ):
            found[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return found
