"""Helpers for tests of headgate and of code that uses it. They are public.

`run` tries a kernel or another operator without Spark, with crashes, moves and late rows on demand.
`pace` gives the rows of a stage a service time and its state a slow `Disk`, and `ModelledTime` makes
its channels exactly as slow as you say, on any machine. `InProcess` is an engine in this process, and `Trial` a stage on it
whose routing the test decides. `builders` makes values; `strategies` and `arrow` have Hypothesis
strategies (they need hypothesis).
"""

from headgate.testing.engine import InProcess
from headgate.testing.kernels import Run, run
from headgate.testing.trial import Trial
from headgate.testing.watches import Disk, ModelledTime, Paced, pace

__all__ = ["Disk", "InProcess", "ModelledTime", "Paced", "Run", "Trial", "pace", "run"]
