"""For tests of headgate and of what is built on it: `run` tries a kernel without Spark; `ModelledTime` makes a stage's channels as slow as
you say on any machine; builders of values (`builders`), Hypothesis
strategies (`strategies`, needs hypothesis). Public.
"""

from headgate.testing.kernels import Run, run
from headgate.testing.modelled_time import ModelledTime

__all__ = ["ModelledTime", "Run", "run"]
