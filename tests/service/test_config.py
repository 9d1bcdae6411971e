"""The configuration file of a service."""

import pytest

from headgate.errors import ConfigError
from headgate.service.config import ServiceConfig


@pytest.fixture
def options(tmp_path):
    return ServiceConfig(tmp_path, "127.0.0.1", 0, 4, "local[2]", "", demo=True)


def test_a_file_overrides_the_command_line(options, tmp_path) -> None:
    path = tmp_path / "service.toml"
    path.write_text(
        '[service]\nservers = 9\ndemo = false\nstate = "s3://bucket/state"\n'
        '[limits]\nwindow_s = 60\n[spark]\n"spark.driver.memory" = "1g"\n'
        '[functions.twice]\ncall = "numpy:abs"\narguments = ["double"]\nreturns = "double"\n[streams.tick]\nformat = "rate"\n'
    )
    config = options.with_file(path)
    assert (config.servers, config.demo, config.limits.window_s) == (9, False, 60)
    assert config.state == "s3://bucket/state"
    assert list(config.functions) == ["twice"]
    assert config.streams["tick"]["format"] == "rate"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[servce]", "not known"),
        ("[service]\nport0 = 1", "'port0'"),
        ("[limits]\nwindow_s = 0", "above 0"),
        ("[functions.f]\ncall = 'nowhere:f'", "functions.f"),
        ("=", "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused(options, tmp_path, text, message) -> None:
    path = tmp_path / "service.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        options.with_file(path)
