"""The modes of a loop by name."""

import pytest

from headgate.control import Mode
from headgate.errors import ConfigError


def test_an_unknown_mode_names_the_closest() -> None:
    with pytest.raises(ConfigError, match=r"observe, advise, act; did you mean 'observe'\?"):
        Mode.parse("obsrve")
    assert Mode.parse("act") is Mode.act
