"""User kernels: a plain Python function per row, checked, typed and compiled to one loop over a bin's rows.

* `kernel`: the decorator `hg.kernel`, and `fields`: the types of state and output;
* `function_source`: the function's text and the values of its names; `syntax`: the first checks;
* `statements`, `expressions` and the modules that they use: from Python to typed code;
* `module`: the text of the compiled loop, and `compiled_loop`: running it;
* `interpreted`: running the function as plain Python;
* `bound_kernel`: the operator.
"""

from headgate.kernels.emit import emit
from headgate.kernels.fields import mapping, ring, text

__all__ = ["emit", "mapping", "ring", "text"]
