"""What a Kafka stream of the configuration may say, and what is told to whoever says something else."""

import pyarrow as pa
import pytest

from headgate.errors import ConfigError
from headgate.service.config import ServiceConfig
from headgate.service.process import ServiceProcess
from headgate.service.stream_config import MAX_ROWS, StreamConfig

PLAIN = {"format": "kafka", "servers": "broker:9092", "topics": "orders", "schema": "n long"}


def test_options_of_the_source_and_of_the_service_are_told_apart() -> None:
    section = {**PLAIN, "group": "lag", "time": "at", "select": ["at", "n"], "start": {"orders": {"0": 17}}}
    config = StreamConfig.of("orders", section, {})
    assert config.options["group"] == "lag"
    assert config.options["start"] == {"orders": {0: 17}}
    assert (config.time, config.select, config.max_rows) == ("at", ("at", "n"), MAX_ROWS)


def test_passwords_come_from_the_environment_and_are_not_shown() -> None:
    section = {**PLAIN, "options": {"client.id": "a"}, "options_from_env": {"sasl.password": "SECRET"}}
    config = StreamConfig.of("orders", section, {"SECRET": "hunter2"})
    assert config.options["options"] == {"client.id": "a", "sasl.password": "hunter2"}
    assert "hunter2" not in repr(config)
    source = config.source(pa.schema([("n", pa.int64())]))
    assert "hunter2" not in repr(source)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"topic": "orders"}, r"\[streams.orders\] sets 'topic', which is not known; it can set .*topics"),
        ({"options": {"kafka.bootstrap.servers": "b"}}, "options of Spark's own Kafka connector"),
        ({"options": {"subscribe": "orders"}}, "write servers = 'broker:9092'"),
        ({"options": "client.id"}, "write a table"),
        ({"options_from_env": {"sasl.password": "NOT_SET"}}, "variable 'NOT_SET', which is not set"),
        ({"options": {"a": 1}, "options_from_env": {"a": "A"}}, "'a' in options and in options_from_env"),
        ({"max_rows": 0}, "max_rows = 0"),
        ({"select": "n"}, "a list of expressions"),
    ],
)
def test_a_wrong_section_is_named(more, message) -> None:
    with pytest.raises(ConfigError, match=message):
        StreamConfig.of("orders", {**PLAIN, **more}, {"A": "x"})


def test_brokers_must_be_named() -> None:
    section = {name: value for name, value in PLAIN.items() if name != "servers"}
    with pytest.raises(ConfigError, match="names no brokers"):
        StreamConfig.of("orders", section, {})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"start": "yesterday"}, r"\[streams.orders\]: Kafka\(start='yesterday'\)"),
        ({"value": "xml"}, r"\[streams.orders\]: "),
        ({"pattern": "a.*"}, r"\[streams.orders\]: Kafka needs topics"),
    ],
)
def test_what_the_source_refuses_names_the_stream(more, message) -> None:
    with pytest.raises(ConfigError, match=message):
        StreamConfig.of("orders", {**PLAIN, **more}, {}).source(pa.schema([("n", pa.int64())]))


def test_a_process_refuses_a_wrong_section_before_it_starts_anything(tmp_path) -> None:
    streams = {"orders": {**PLAIN, "options_from_env": {"sasl.password": "NOT_SET"}}}
    config = ServiceConfig(tmp_path, "127.0.0.1", 0, 2, "local[1]", "", demo=False, streams=streams)
    with pytest.raises(ConfigError, match="NOT_SET"):
        ServiceProcess(config)


def test_files_and_tables_have_the_options_of_their_connectors(tmp_path) -> None:
    section = {"format": "csv", "path": str(tmp_path), "schema": "n long", "options": {"delimiter": ";"}}
    config = StreamConfig.of("gauges", section, {})
    source = config.source(pa.schema([("n", pa.int64())]))
    assert source.identity()["source"] == "files"
    assert config.options["options"] == {"delimiter": ";"}
    table = {"format": "delta", "path": str(tmp_path), "only_new": True, "options_from_env": {"key": "KEY"}}
    assert StreamConfig.of("table", table, {"KEY": "hush"}).options["storage_options"] == {"key": "hush"}


def test_options_of_sparks_file_source_mean_what_they_meant(tmp_path) -> None:
    options = {"path": str(tmp_path), "sep": ";", "pathGlobFilter": "*.txt", "maxFilesPerTrigger": 3}
    section = {"format": "csv", "schema": "n long", "options": options}
    config = StreamConfig.of("gauges", section, {})
    assert config.options["options"] == {"header": False, "delimiter": ";"}
    assert (config.options["path"], config.options["pattern"]) == (str(tmp_path), "*.txt")
    config.source(pa.schema([("n", pa.int64())]))


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"format": "rate"}, r"format = 'rate', .*the formats are kafka, files, .*push events over HTTP"),
        ({"format": "socket"}, "does not read"),
        ({"format": "json", "schema": "n long"}, "names no folder"),
        ({"format": "delta"}, "names no table"),
        ({"format": "iceberg"}, "names no table"),
        ({"format": "json", "options": {"path": "in", "cleanSource": "delete"}}, "'cleanSource'"),
        ({"format": "json", "path": "in", "options_from_env": {"a": "A"}}, "no such options"),
        ({"format": "parquet", "path": "in", "servers": "b"}, "'servers', which is not known"),
    ],
)
def test_a_stream_that_is_not_known_is_told_what_to_write(section, message) -> None:
    with pytest.raises(ConfigError, match=message):
        StreamConfig.of("gauges", section, {"A": "x"})
