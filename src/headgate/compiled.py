"""One typed door to numba, so that every kernel is compiled under the same rules.

Kernels are cached on disk, release the interpreter lock and divide as numpy does (no check per division).
`fastmath` stays off: the same input must give the same plan on every machine.
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


@cache
def generated(name: str, text: str, *uses: ModuleType) -> ModuleType:
    """A module made of `text`, for kernels that are written by code.

    Its file has the name of its content and of what it `uses`, so that what it compiles to is found again by every process of
    the machine, and made anew when one of these changes.
    """
    content = hashlib.sha256(f"{numba.__version__} {sys.version_info} {text}".encode())
    for module in uses:
        content.update(inspect.getsource(module).encode())
    digest = content.hexdigest()[:20]
    path = _folder() / f"{name}_{digest}.py"
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
            file.write(text)
        with suppress(FileExistsError):  # another process was faster; its file is the one that is compiled
            os.link(file.name, path)
        os.unlink(file.name)
    spec = importlib.util.spec_from_file_location(f"headgate_generated_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def is_compiled(module: ModuleType, function: str) -> bool:
    """Whether a function of a generated module has been compiled before, by any process of this machine."""
    path = Path(str(module.__file__))
    return any((path.parent / "__pycache__").glob(f"{path.stem}.{function}-*.nbi"))


def _folder() -> Path:
    """Where generated modules are kept: the user's cache, or a folder of this user among the temporary files."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for folder in (Path(home) / "headgate", Path(tempfile.gettempdir()) / f"headgate-{os.getuid()}"):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        if folder.stat().st_uid == os.getuid() and os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="headgate-"))
