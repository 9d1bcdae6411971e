"""A service without Spark, and the same behind a real port on loopback."""

import pytest
from tests.service.local import Local

from headgate.service.http.background import listening


@pytest.fixture
def local(tmp_path):
    local = Local(tmp_path / "service")
    yield local
    local.service.close()


@pytest.fixture
def served(local):
    with listening(local.service) as local.url:
        yield local
