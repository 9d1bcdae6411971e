"""The command line: `commands` declares the commands, and each has a module with its work."""

from headgate.cli.commands import app, main

__all__ = ["app", "main"]
