"""Headgate: keyed streams on Spark under routing that adapts.

    import headgate as hg
    from headgate import agg

    stage = hg.Stage(
        key="user",
        operator=hg.Aggregate(n=agg.count()),
        checkpoint="state/users",
        sink=hg.sinks.Parquet("out/users"),
    )
    events.writeStream.foreachBatch(stage).option("checkpointLocation", "state/spark").start()

What needs Spark (`Stage`, `configure`, `sinks`) or the service's libraries (`Client`) is loaded when it is first named, so
everything else works without them.
"""

from __future__ import annotations

import importlib
from typing import Any

from headgate import errors, hosting, policies, testing
from headgate.flow.gate import Gate
from headgate.kernels.emit import emit
from headgate.kernels.fields import mapping, ring, text
from headgate.kernels.kernel import kernel
from headgate.operators import agg
from headgate.operators.aggregate import Aggregate
from headgate.operators.dedup import Dedup
from headgate.operators.hash_join import HashJoin
from headgate.operators.history import HistoryWindow
from headgate.operators.stream_join import Join
from headgate.operators.topk import TopK
from headgate.operators.vectorised import Vectorised
from headgate.operators.windows import Windows, hopping, session, tumbling

__version__ = "0.1.0"
__all__ = [
    "Aggregate",
    "Client",
    "Dedup",
    "FanOut",
    "Gate",
    "HashJoin",
    "HistoryWindow",
    "Join",
    "Pipeline",
    "Stage",
    "TopK",
    "Vectorised",
    "Windows",
    "agg",
    "bounded",
    "configure",
    "emit",
    "errors",
    "hopping",
    "hosting",
    "kernel",
    "mapping",
    "policies",
    "ring",
    "session",
    "sinks",
    "testing",
    "text",
    "tumbling",
    "two_streams",
]

_LATER = {
    "Client": ("headgate.service.http.client", "Client"),
    "FanOut": ("headgate.spark.gates.staged", "FanOut"),
    "Pipeline": ("headgate.spark.pipeline", "Pipeline"),
    "Stage": ("headgate.spark.stage", "Stage"),
    "bounded": ("headgate.spark.gates.bounded", "bounded"),
    "configure": ("headgate.spark.session", "configure"),
    "sinks": ("headgate.spark.sinks", None),
    "two_streams": ("headgate.spark.two_streams", "two_streams"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}; it has {', '.join(__all__)}")
    module, attribute = _LATER[name]
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        told = errors.not_installed(error, f"headgate.{name}")
        if told is None:
            raise
        raise ImportError(str(told)) from error
    return getattr(loaded, attribute) if attribute else loaded


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
