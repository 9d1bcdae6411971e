"""`headgate backup` and `headgate restore`: a service with its registry, state and pushed events."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.console import Output
from headgate.cli.group import AsJson
from headgate.errors import HeadgateError

Registry = Annotated[str, typer.Option(help="The registry, if not in the folder: as for `serve`.")]
State = Annotated[str, typer.Option(help="Where state and results are, if not in the folder.")]
Push = Annotated[str, typer.Option(help="Where pushed events wait, if not where `serve` puts them.")]


def backup(
    folder: Annotated[Path, typer.Argument(help="The service's folder. The service may run.")],
    target: Annotated[Path, typer.Argument(help="A new folder for the backup.")],
    registry: Registry = "",
    state: State = "",
    push: Push = "",
    as_json: AsJson = False,
) -> None:
    """Back up a service, which may run meanwhile."""
    from headgate.service.backup import backup
    from headgate.service.places import Places

    figures = backup(Places.of(folder, registry, state, push), target)
    text = f"{figures['files']} files, {figures['bytes']:,} bytes, up to batch {figures['batch']}, are in {target}"
    Output(as_json=as_json).result(text, figures)


def restore(
    source: Annotated[Path, typer.Argument(help="A backup.")],
    folder: Annotated[Path, typer.Argument(help="A new folder for the service.")],
    registry: Registry = "",
    state: State = "",
    push: Push = "",
    as_json: AsJson = False,
) -> None:
    """Make a service of a backup, and check all of it before."""
    from headgate.service.backup import restore
    from headgate.service.places import Places

    try:
        figures = restore(source, Places.of(folder, registry, state, push))
    except OSError as error:
        raise HeadgateError(f"the backup in {source} cannot be restored: {error}") from error
    text = f"{figures['files']} files are restored, up to batch {figures['batch']}; start it with: headgate serve --folder {folder}"
    Output(as_json=as_json).result(text, figures)
