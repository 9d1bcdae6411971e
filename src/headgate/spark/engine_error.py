"""What the error of a failed Spark job says: the error that headgate raised in a task, or one line."""

from __future__ import annotations

import re

from headgate import errors
from headgate.errors import HeadgateError

_RAISED = re.compile(r"^headgate\.errors\.(\w+): (.+)$", re.MULTILINE)
_NO_HEADGATE = "ModuleNotFoundError: No module named 'headgate'"


def gist(error: Exception) -> str:
    """The most informative line of an engine's error: the last line of a Python
    traceback, otherwise the first line.
    """
    lines = [line for line in str(error).strip().splitlines() if line.strip()] or [repr(error)]
    line = lines[0]
    crashed = re.search(r"Python worker exited unexpectedly[^\n]*", str(error))
    if crashed:
        return f"{crashed[0]}: it ran out of memory or was killed, or native code in it crashed; see the executor's log"
    if line.startswith("An error occurred while calling") and len(lines) > 1:  # Py4J's own words
        line = lines[1].removeprefix(": ")
    if "Traceback" in str(error):
        # Java's own lines, and Spark's SQLSTATE, follow the traceback.
        raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt|Exit)\b", line)]
        line = raised[-1] if raised else lines[-1]
    said = f"{type(error).__name__}: {line.strip()}"
    if _NO_HEADGATE in said:
        said += (
            " (the Python of Spark's workers is another one: set PYSPARK_PYTHON to this interpreter before the "
            "session starts, as hg.configure does, or install headgate there)"
        )
    return said


def raised_in_task(error: Exception) -> HeadgateError | None:
    """The error of headgate's own that a Python worker raised, if the job failed because of one."""
    match = _RAISED.search(str(error))
    kind = getattr(errors, match[1], None) if match else None
    if match is None or not isinstance(kind, type) or not issubclass(kind, HeadgateError):
        return None
    return kind(match[2])
