"""The laws of the stage hold for both ways in: `foreachBatch(stage)` and direct streams."""

import pytest

from headgate.testing.direct import InProcessDirect
from headgate.testing.engine import InProcess
from headgate.testing.trial import ENGINE

BOTH = ("test_state_laws", "test_event_time_laws", "test_kernel_laws")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in BOTH:
        metafunc.fixturenames.append("engine")
        metafunc.parametrize("engine", [InProcess, InProcessDirect], ids=["stage", "direct"], indirect=True)


@pytest.fixture
def engine(request):
    token = ENGINE.set(request.param)
    yield request.param
    ENGINE.reset(token)
