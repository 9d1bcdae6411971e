"""One typed door to numba, so that every kernel is compiled under the same rules.

Kernels are cached on disk, release the interpreter lock and divide as numpy does (no check per division).
`fastmath` stays off: the same input must give the same plan on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba

_Kernel = Callable[..., Any]


def compiled(function: _Kernel) -> _Kernel:
    """Compile ``function`` on its first call with each new combination of argument types.

    It must be written in a file: what it compiles to is kept beside that.
    """
    return cast(_Kernel, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: _Kernel) -> _Kernel:
    """As `compiled`, for small helpers that kernels call in their inner loop."""
    return cast(_Kernel, numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")(function))


def bare(function: _Kernel, *, inline: str = "never") -> _Kernel:
    """As `compiled`, for kernels that are given many arrays and make none: they count no references.

    The counting costs the simulator a factor of 20. Such a kernel must not allocate: numba refuses it then.
    """
    how = {"cache": True, "nogil": True, "error_model": "numpy", "inline": inline, "_nrt": False}
    return cast(_Kernel, numba.njit(**how)(function))
