"""The only typed access to numba, so that every kernel is compiled with the same options.

Kernels are kept on disk (`code_cache`), release the interpreter lock and divide as numpy does (no check per
division). `fastmath` stays off: the same input must give the same plan on every machine.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numba

from headgate.code_cache import GENERATED, SUFFIX, CodeCache, folder

_Kernel = Callable[..., Any]


def compiled(function: _Kernel) -> _Kernel:
    """Compile ``function`` on its first call with each new combination of argument types."""
    return _kept(function)


def inlined(function: _Kernel) -> _Kernel:
    """Like `compiled`, for small helpers that kernels call in their inner loop."""
    return _kept(function, inline="always")


def bare(function: _Kernel, *, inline: str = "never") -> _Kernel:
    """Like `compiled`, but without reference counting, for kernels that take many arrays and allocate none.

    Reference counting makes the simulator 20 times slower. numba refuses such a kernel if it allocates.
    """
    return _kept(function, inline=inline, _nrt=False)


def _kept(function: _Kernel, **options: Any) -> _Kernel:
    """Compile a function when it is called, and keep the code in our cache instead of numba's."""
    dispatcher = numba.njit(nogil=True, error_model="numpy", **options)(function)
    dispatcher._cache = CodeCache(dispatcher)
    return cast(_Kernel, dispatcher)


@cache
def generated(name: str, text: str, *uses: ModuleType) -> ModuleType:
    """A module made of `text`, for kernels whose source is generated.

    The file is named by a hash of `text` and of the modules that it `uses`. So every process on the
    machine finds the compiled code again, and it is compiled anew when one of these changes.
    """
    content = hashlib.sha256(f"{numba.__version__} {sys.version_info} {text}".encode())
    for module in uses:
        content.update(inspect.getsource(module).encode())
    digest = content.hexdigest()[:20]
    path = folder(os.environ.get("XDG_CACHE_HOME")) / f"{name}_{digest}.py"
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
            file.write(text)
        with suppress(FileExistsError):  # another process was faster; its file has the same content
            os.link(file.name, path)
        os.unlink(file.name)
    spec = importlib.util.spec_from_file_location(f"{GENERATED}{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def is_compiled(module: ModuleType, function: str) -> bool:
    """Whether any process on this machine has compiled this function of a generated module before."""
    path = Path(str(module.__file__))
    return any((path.parent / "__pycache__").glob(f"{GENERATED}{path.stem}.{function}-*{SUFFIX}"))
