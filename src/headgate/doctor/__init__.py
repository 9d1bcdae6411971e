"""The doctor: what holds a native Spark stream back, and what Headgate would do with it.

`headgate doctor LOG` reads an event log. A job that runs already and has none is recorded by
`hg.doctor.record(spark, "recording")`, and `headgate doctor recording` reads that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.spark.doctoring import Recording

__all__ = ["record"]


def record(spark: Any, folder: str) -> Recording:
    """Record what `headgate doctor` needs, from now on, into a folder; `stop()` of what it returns ends it.

    A classic session gets Spark's own event log there, with every task. Through Spark Connect only the
    progress of queries can be recorded: the doctor then knows no tasks, and so no skew.
    """
    from headgate.spark.doctoring import record as begin

    return begin(spark, folder)
