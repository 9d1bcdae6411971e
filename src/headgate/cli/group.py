"""What all commands share: errors as a message and an exit code, and the options that many have."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from headgate.errors import HeadgateError, not_installed

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
Quick = Annotated[bool, typer.Option("--quick", help="Small sizes: to try it, not to measure.")]


class Commands(TyperGroup):
    """Turns errors into a message and an exit code, and a module that an extra would bring into what to install."""

    def invoke(self, ctx: Any) -> Any:
        """Call the command."""
        words = Console(stderr=True, highlight=False, markup=False)
        try:
            return super().invoke(ctx)
        except HeadgateError as error:
            words.print(f"headgate: {error}", style="red", soft_wrap=True)
            raise typer.Exit(1) from error
        except ModuleNotFoundError as error:
            told = not_installed(error, f"{ctx.command_path} {ctx.invoked_subcommand or ''}".strip())
            if told is None:  # not an extra's: a bug, or an installation that is broken
                raise
            words.print(f"headgate: {told}", style="red", soft_wrap=True)
            raise typer.Exit(1) from error
        except KeyboardInterrupt:
            words.print("headgate: stopped", style="yellow")
            raise typer.Exit(130) from None
