"""What all commands share: errors become a message and an exit code, and some options are common."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from headgate.errors import HeadgateError, not_installed

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
Wide = Annotated[bool, typer.Option("--wide", help="All columns, also where they do not fit the terminal.")]
Quick = Annotated[bool, typer.Option("--quick", help="Small sizes: to try it, not to measure.")]


class Commands(TyperGroup):
    """Turns an error into a message and an exit code, and a missing module into what to install."""

    def invoke(self, ctx: Any) -> Any:
        """Call the command."""
        console = Console(stderr=True, highlight=False, markup=False)
        try:
            return super().invoke(ctx)
        except HeadgateError as error:
            console.print(f"headgate: {error}", style="red", soft_wrap=True)
            raise typer.Exit(1) from error
        except ModuleNotFoundError as error:
            message = not_installed(error, f"{ctx.command_path} {ctx.invoked_subcommand or ''}".strip())
            if message is None:  # no extra has this module: a bug, or a broken installation
                raise
            console.print(f"headgate: {message}", style="red", soft_wrap=True)
            raise typer.Exit(1) from error
        except KeyboardInterrupt:
            console.print("headgate: stopped", style="yellow")
            raise typer.Exit(130) from None
