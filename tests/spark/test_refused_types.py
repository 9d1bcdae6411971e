"""Types that no stage can carry or use as a key are refused by name, before the first batch."""

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from tests.spark.typed_rows import typed_rows

import headgate as hg
from headgate import agg
from headgate.errors import CheckpointMismatch, KernelRefused, MissingColumn, UnsupportedType


@pytest.fixture(scope="module")
def frame(spark: Any) -> DataFrame:
    return typed_rows(spark)


POINT = "st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')"


CALENDAR = "make_interval(1, 2, 0, 3)"


@pytest.mark.parametrize(
    ("columns", "named"),
    [(f"{CALENDAR} as c", "has type interval, which cannot be carried"),
     (f"array({CALENDAR}) as c", r"has type array<interval>, and in it interval, which cannot be carried"),
     (f"{POINT} as c", r"has type geometry\(0\), which cannot be carried through a stage; send st_asbinary"),
     ("array(interval '1' year) as c", r"has type array<interval year>, and in it interval year, which cannot be carried")],
)  # fmt: skip
def test_what_cannot_be_carried_is_refused_by_name_before_the_first_batch(
    spark: Any, make_stage: Any, columns: str, named: str
) -> None:
    try:
        frame = spark.sql(f"select 1L as k, 2 as i, {columns}")
    except AnalysisException as error:
        if "GEOSPATIAL_DISABLED" not in str(error):
            raise
        pytest.skip("this version of Spark has no geometries, unless they are enabled")
    for operator in (hg.Dedup(), hg.TopK(1, by="i"), hg.Aggregate(n=agg.count("c"))):
        stage = make_stage(operator)
        with pytest.raises(UnsupportedType, match=f"column 'c' {named}.*leave the column out"):
            stage(frame, 0)
        assert not stage.store.exists("commits") or stage.store.names("commits") == []
    stage = make_stage(hg.Aggregate(n=agg.count("i")))
    stage(frame, 0)
    assert stage.sink.table().to_pylist() == [{"k": 1, "n": 1}], "who does not use the column is not troubled"


@pytest.mark.parametrize(
    ("key", "said"),
    [("tags", "key column 'tags' has type array<string>, which cannot be a key; take a part of it, or cast it to"),
     ("attrs", "key column 'attrs' has type map<string,bigint>, which cannot be a key"),
     ("hours", "key column 'hours' has type interval hour, which cannot be a key"),
     ("name", "key column 'name' is collated as UTF8_LCASE; cast it with"),
     ("doc", "key column 'doc' has type variant, which cannot be a key")],
)  # fmt: skip
def test_what_cannot_be_a_key_is_refused_by_name(
    frame: DataFrame, make_stage: Any, key: str, said: str
) -> None:
    with pytest.raises(UnsupportedType, match=said):
        make_stage(hg.Aggregate(n=agg.count()), key=key)(frame, 0)


@hg.kernel(state={"n": int}, output={"n": int})
def reads_tags(state, row):
    if row.tags is None:
        return None
    return state.n


@pytest.mark.parametrize(
    ("operator", "error", "said"),
    [(lambda: hg.Aggregate(m=agg.max("tags")), UnsupportedType,
      r"column 'tags' has type array<string>, which max\('tags'\) cannot put in order; take a part of it"),
     (lambda: hg.Aggregate(m=agg.sum("tags")), UnsupportedType,
      r"sum\(tags\) needs a number, but column 'tags' has type array<string>"),
     (lambda: hg.Aggregate(m=agg.min("name")), UnsupportedType, "column 'name' has type string collate UTF8_LCASE"),
     (lambda: hg.TopK(1, by="attrs"), UnsupportedType, "column 'attrs' has type map<string,bigint>, which it cannot"),
     (lambda: hg.HistoryWindow(2, "mean", of="pos"), UnsupportedType, "column 'pos' has type struct<"),
     (lambda: hg.Dedup(on="tags", delay="1 s"), UnsupportedType, "a timestamp, but 'tags' is array<string>"),
     (lambda: reads_tags, KernelRefused,
      r"column 'tags' has type array<string>, which a kernel cannot read; cast it.*keep=\['tags'\]"),
     (lambda: hg.Aggregate(m=agg.count("absent")), MissingColumn, "reads column 'absent', but the stream has 'k'")],
)  # fmt: skip
def test_errors_say_that_a_column_is_there_and_what_its_type_is(
    frame: DataFrame, make_stage: Any, operator: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        make_stage(operator())(frame, 0)


def test_a_payload_that_changes_its_type_is_refused(spark: Any, make_stage: Any) -> None:
    stage = make_stage(hg.Dedup())
    stage(spark.sql("select 1L as k, array(1) as a"), 0)
    stage(spark.sql("select 2L as k, array(2, null) as a"), 1)
    with pytest.raises(CheckpointMismatch, match="column 'a' was array<int> and is now array<string>"):
        stage(spark.sql("select 1L as k, array('x') as a"), 2)
