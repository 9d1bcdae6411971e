"""For tests of headgate and of what is built on it. Public.

`run` tries a kernel or another operator without Spark, with crashes, moves and late rows on demand. `pace` gives the rows of a
stage a service time, and `ModelledTime` makes its channels as slow as you say on any machine. `InProcess` is an engine in
this process, `Trial` a stage on it whose routing a test decides. `builders` makes values, `strategies` and `arrow` have
Hypothesis strategies (they need hypothesis).
"""

from headgate.testing.engine import InProcess
from headgate.testing.kernels import Run, run
from headgate.testing.trial import Trial
from headgate.testing.watches import ModelledTime, Paced, pace

__all__ = ["InProcess", "ModelledTime", "Paced", "Run", "Trial", "pace", "run"]
