"""`emit`, which means something only inside the function of a kernel."""

from __future__ import annotations

from typing import Any

from headgate.errors import ConfigError


def emit(*values: Any, **named: Any) -> None:
    """In a kernel: emit one row, with a value for each output column, in order or by name. None is a null."""
    raise ConfigError("emit() can only be used inside the function of a kernel")
