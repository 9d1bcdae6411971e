"""Headgate: keyed streams on Spark under routing that adapts.

    import headgate as hg
    from headgate import agg

    query = (
        hg.read(spark)
        .files("in/events", schema="user long, amount double")
        .where("amount > 0")
        .key_by("user")
        .aggregate(n=agg.count(), total=agg.sum("amount"))
        .write(hg.sinks.Parquet("out/users"))
        .start(checkpoint="checkpoints/users")
    )

For a job that exists already, `events.writeStream.foreachBatch(hg.Stage(...))` is the drop-in.

Every name is loaded when it is first used, so `import headgate` takes milliseconds, and what needs Spark
(`read`, `Stage`, `configure`) asks for it only then. `kernels`, `policies`, `sources`, `sinks`, `observe`,
`hosting`, `service`, `doctor` and `testing` are modules with names of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate import doctor, errors, hosting, kernels, observe, policies, service, sources, testing
    from headgate.flow.fan_out import FanOut
    from headgate.flow.gate import Gate
    from headgate.flow.shared_memory import SharedMemory
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
    from headgate.spark.direct.read import read
    from headgate.spark.gates.bounded import bounded
    from headgate.spark.pipeline import Pipeline
    from headgate.spark.session import configure
    from headgate.spark.stage import Stage
    from headgate.spark.two_streams import two_streams
    from headgate.stage import sinks
    from headgate.stage.completion import Completed
    from headgate.stage.settings import Expansion, Limits, Routing

__version__ = "0.1.0"
__all__ = [
    "Aggregate",
    "Completed",
    "Dedup",
    "Expansion",
    "FanOut",
    "Gate",
    "HashJoin",
    "HistoryWindow",
    "Join",
    "Limits",
    "Pipeline",
    "Routing",
    "SharedMemory",
    "Stage",
    "TopK",
    "Vectorised",
    "Windows",
    "agg",
    "bounded",
    "configure",
    "doctor",
    "errors",
    "hopping",
    "hosting",
    "kernel",
    "kernels",
    "observe",
    "policies",
    "read",
    "service",
    "session",
    "sinks",
    "sources",
    "testing",
    "tumbling",
    "two_streams",
]

_HOMES = {
    "Aggregate": "headgate.operators.aggregate:Aggregate",
    "Dedup": "headgate.operators.dedup:Dedup",
    "Completed": "headgate.stage.completion:Completed",
    "Expansion": "headgate.stage.settings:Expansion",
    "FanOut": "headgate.flow.fan_out:FanOut",
    "Gate": "headgate.flow.gate:Gate",
    "HashJoin": "headgate.operators.hash_join:HashJoin",
    "HistoryWindow": "headgate.operators.history:HistoryWindow",
    "Join": "headgate.operators.stream_join:Join",
    "Limits": "headgate.stage.settings:Limits",
    "Pipeline": "headgate.spark.pipeline:Pipeline",
    "Routing": "headgate.stage.settings:Routing",
    "SharedMemory": "headgate.flow.shared_memory:SharedMemory",
    "Stage": "headgate.spark.stage:Stage",
    "TopK": "headgate.operators.topk:TopK",
    "Vectorised": "headgate.operators.vectorised:Vectorised",
    "Windows": "headgate.operators.windows:Windows",
    "agg": "headgate.operators.agg:",
    "bounded": "headgate.spark.gates.bounded:bounded",
    "configure": "headgate.spark.session:configure",
    "doctor": "headgate.doctor:",
    "errors": "headgate.errors:",
    "hopping": "headgate.operators.windows:hopping",
    "hosting": "headgate.hosting:",
    "kernel": "headgate.kernels.kernel:kernel",
    "kernels": "headgate.kernels:",
    "observe": "headgate.observe:",
    "policies": "headgate.policies:",
    "read": "headgate.spark.direct.read:read",
    "service": "headgate.service:",
    "session": "headgate.operators.windows:session",
    "sinks": "headgate.stage.sinks:",
    "sources": "headgate.sources:",
    "testing": "headgate.testing:",
    "tumbling": "headgate.operators.windows:tumbling",
    "two_streams": "headgate.spark.two_streams:two_streams",
}
"""Where each public name is defined, as `module:name`; `module:` is the module itself."""


def __getattr__(name: str) -> Any:
    """Load a public name, once (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}; it has {', '.join(__all__)}")
    from pkgutil import resolve_name

    try:
        value = resolve_name(_HOMES[name])
    except ModuleNotFoundError as error:
        from headgate.errors import not_installed

        missing = not_installed(error, f"headgate.{name}")
        if missing is None:
            raise
        raise ImportError(str(missing)) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, whether they are loaded or not."""
    return sorted([*__all__, "__version__"])
