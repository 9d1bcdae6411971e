"""The public face: what `import headgate as hg` offers, locked."""

import inspect

import pytest

import headgate as hg
from headgate import agg

OPERATORS = ["Aggregate", "Dedup", "HashJoin", "HistoryWindow", "Join", "TopK", "Vectorised", "Windows"]
OPERATORS += ["emit", "hopping", "kernel", "mapping", "ring", "session", "text", "tumbling"]
WITHOUT_SPARK = [*OPERATORS, "Client", "Gate", "agg", "errors", "hosting", "policies", "testing"]
WITH_SPARK = ["FanOut", "Pipeline", "Stage", "bounded", "configure", "sinks", "two_streams"]


def test_the_public_names_are_these() -> None:
    assert sorted(hg.__all__) == sorted([*WITHOUT_SPARK, *WITH_SPARK])
    assert dir(hg) == sorted([*hg.__all__, "__version__"])


@pytest.mark.parametrize("name", WITHOUT_SPARK)
def test_what_needs_no_spark_is_there(name: str) -> None:
    assert inspect.getdoc(getattr(hg, name))


def test_aggregate_functions_are_these() -> None:
    names = sorted(n for n, f in vars(agg).items() if inspect.isfunction(f) and f.__module__ == agg.__name__)
    assert names == ["count", "first", "last", "max", "mean", "min", "std", "sum", "var"]


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(AttributeError, match="it has Aggregate, Client, Dedup, FanOut, Gate, HashJoin"):
        _ = hg.Stagee


def test_without_pyspark_the_message_says_what_to_install() -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match=r"pip install 'headgate\[spark\]'"):
            _ = hg.Stage
    else:
        assert all(inspect.getdoc(getattr(hg, name)) for name in WITH_SPARK)
