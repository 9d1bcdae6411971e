"""What Spark says when a job fails, in one line."""

from __future__ import annotations


def gist(error: Exception) -> str:
    """The line of an engine's error that says most: the last of a Python traceback, else the first."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()] or [repr(error)]
    return f"{type(error).__name__}: {lines[-1 if 'Traceback' in str(error) else 0].strip()}"
