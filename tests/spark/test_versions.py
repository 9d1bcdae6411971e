"""A Spark that is too old is refused with a message that names the versions; a newer one gets a warning."""

import json
import logging
from typing import Any

import pyspark
import pytest
from tests import spark_versions

import headgate as hg
from headgate import agg
from headgate.errors import ConfigError
from headgate.spark.versions import TESTED, check_spark


@pytest.mark.parametrize("found", ["4.0.2", "3.5.7", "2.4"])
def test_an_older_pyspark_is_refused_everywhere(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, found: str
) -> None:
    monkeypatch.setattr(pyspark, "__version__", found)
    said = rf"pyspark has version {found}, and headgate runs on Spark 4\.1, 4\.2 and 4\.3: install one"
    with pytest.raises(ConfigError, match=said):
        hg.configure(spark)
    with pytest.raises(ConfigError, match=said):
        hg.read(spark)
    with pytest.raises(ConfigError, match=said):
        hg.Stage(key="k", operator=hg.Aggregate(n=agg.count()), checkpoint=str(tmp_path))


class Server:
    """A session whose server has another version than the client."""

    version = "4.0.1"
    createDataFrame = None


def test_an_older_server_is_refused() -> None:
    server: Any = Server()
    with pytest.raises(ConfigError, match=r"the Spark of this session has version 4\.0\.1"):
        hg.read(server)


def test_a_newer_one_gets_a_warning_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "5.0.0.dev1")
    for _ in range(2):
        with caplog.at_level(logging.WARNING, "headgate.stage"):
            check_spark()
    assert caplog.text.count("newer than those that headgate is tested with (4.1, 4.2 and 4.3)") == 1


def test_the_tested_versions_are_those_of_the_matrix() -> None:
    text = (spark_versions.ROOT / "script" / "matrix").read_text()
    listed = text.partition("versions=(")[2].partition(")")[0].split()
    assert [tuple(map(int, version.split(".")[:2])) for version in listed] == list(TESTED)


def test_the_table_of_the_page_is_that_of_the_results() -> None:
    results, page = json.loads(spark_versions.RESULTS.read_text()), spark_versions.PAGE.read_text()
    assert spark_versions.on_page(results, page) == page


def test_the_page_names_every_part_of_the_one_file() -> None:
    from headgate.spark import inside

    page = spark_versions.PAGE.read_text()
    functions = [
        n for n, v in vars(inside).items() if callable(v) and v.__module__ == inside.__name__ and n[0] != "_"
    ]
    assert len(functions) > 8
    assert [name for name in functions if f"`{name}`" not in page] == []
