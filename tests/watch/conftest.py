"""A recorded run, made once for all tests that only read it."""

import pytest
from tests.watch.skewed import Skewed

import headgate as hg


@pytest.fixture(scope="session")
def recorded(tmp_path_factory) -> str:
    """The checkpoint of a run of twelve batches, with moves, a refusal, waiting rows and a rescale."""
    folder = str(tmp_path_factory.mktemp("watch") / "users")
    skewed = Skewed(folder, limits=hg.Limits(memory="20KB"))
    skewed.run(10)
    skewed.stage.rescale(5)
    skewed.run(2)
    return folder
