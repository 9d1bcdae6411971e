"""A seed fixes a history, in any process."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("seed", [7770, 4711], ids=["of the service", "of a stage"])
def test_a_seed_tells_the_same_story_under_any_hash_seed(seed: int) -> None:
    command = [sys.executable, "-m", "headgate", "chaos", "--seed", str(seed)]
    told = [
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": hashes}, capture_output=True, text=True, check=True
        ).stdout
        for hashes in ("1", "2")
    ]
    assert told[0] == told[1]
    assert len(told[0].splitlines()) > 20
