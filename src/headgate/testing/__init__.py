"""For tests of headgate and of what is built on it: `run` tries a kernel without Spark; builders of values (`builders`), Hypothesis
strategies (`strategies`, needs hypothesis). Public.
"""

from headgate.testing.kernels import Run, run

__all__ = ["Run", "run"]
