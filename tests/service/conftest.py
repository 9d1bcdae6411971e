"""A service without Spark, and the same behind a real port of loopback."""

import pytest
from tests.service.local import Local

from headgate.service.background import listening


@pytest.fixture
def local(tmp_path):
    made = Local(tmp_path / "service")
    yield made
    made.service.close()


@pytest.fixture
def served(local):
    with listening(local.service) as local.url:
        yield local
