"""Shortens the error of a failed Spark job to one line."""

from __future__ import annotations


def gist(error: Exception) -> str:
    """The most informative line of an engine's error: the last line of a Python
    traceback, otherwise the first line.
    """
    lines = [line for line in str(error).strip().splitlines() if line.strip()] or [repr(error)]
    return f"{type(error).__name__}: {lines[-1 if 'Traceback' in str(error) else 0].strip()}"
