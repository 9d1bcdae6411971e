"""Compiled code on disk, under a hash of all that it was made from.

numba's own cache looks at the file of a function, and not at the files of the functions that it calls:
whoever changes one of these gets the old code. Here the name of a file is a hash of the function, of every
function and constant that it reaches, of its argument types, and of numba, Python and the processor. So code
is never stale, two checkouts share what they have in common, and a file never changes once it is written.

The hash is of what Python holds in memory and not of sources: comments and the lines around a function do
not count. A traceback out of code that was compiled before such an edit names the line as it was then.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaWarning
from numba.core.serialize import dumps

_HOME = os.environ.get("XDG_CACHE_HOME")  # as it was when this process began; see `folder`
_KNOWN_BY_VERSION = frozenset({"numba", "numpy", "math", "builtins"})
_SCALARS = (int, float, complex, str, bytes, type(None), np.generic, np.dtype)


class CodeCache:
    """What numba asks for compiled code of one function, and gives it to. Any number of processes may share it."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    @property
    def cache_path(self) -> str:
        """The folder of the files."""
        return str(self._folder())

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The code for these argument types; None if there is none yet."""
        target.refresh()
        with suppress(OSError, EOFError, pickle.UnpicklingError):  # not there, or cut off by a crash
            return CompileResult._rebuild(
                target, *pickle.loads(self._path(signature, target.codegen()).read_bytes())
            )
        return None

    def save_overload(self, signature: Any, made: Any) -> None:
        """Keep code for the next process. Where nothing can be written it goes without."""
        if made.library.has_dynamic_globals or any(not part.can_cache for part in made.lifted):
            name = self._dispatcher.py_func.__qualname__
            warnings.warn(
                f"the code of {name} cannot be kept for the next process", NumbaWarning, stacklevel=2
            )
            return
        path = self._path(signature, made.codegen)
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("wb", dir=path.parent, suffix=".tmp", delete=False) as file:
                file.write(dumps(made._reduce()))
            os.replace(file.name, path)

    def flush(self) -> None:
        """Nothing to do: what a file holds is true as long as it can be found."""

    enable = disable = flush

    def _folder(self) -> Path:
        function = self._dispatcher.py_func
        if function.__module__.startswith(GENERATED):
            return Path(function.__code__.co_filename).parent / "__pycache__"
        if numba.config.CACHE_DIR:
            return Path(numba.config.CACHE_DIR) / "headgate"
        return folder(_HOME) / "library"

    def _path(self, signature: Any, codegen: Any) -> Path:
        function = self._dispatcher.py_func
        versions = numba.__version__, np.__version__, sys.implementation.cache_tag, codegen.magic_tuple()
        digest = hashlib.sha256(repr(versions).encode())
        made_from(self._dispatcher, digest.update)
        arguments = signature if isinstance(signature, tuple) else signature.args
        _of_types(arguments, digest.update, set())
        if not isinstance(signature, tuple):
            digest.update(str(signature.return_type).encode())
        module = function.__module__.rpartition(".")[2]
        return self._folder() / f"{module}.{function.__qualname__}-{digest.hexdigest()[:32]}{SUFFIX}"


GENERATED = "headgate_generated_"
"""How the names of modules begin whose text is generated: their code is kept beside them."""

SUFFIX = ".code"


def made_from(function: Any, note: Callable[[bytes], None], seen: set[int] | None = None) -> None:
    """Tell `note` all that the code of a function depends on: its own bytecode and options, and the same of each
    function that it can reach, with the values of constants.

    A name counts as used if it occurs in the bytecode at all, so it may tell more than is needed, never less.
    """
    seen = set() if seen is None else seen
    if isinstance(function, Dispatcher):
        note(repr(sorted(function.targetoptions.items(), key=str)).encode())
        function = function.py_func
    if id(function) in seen:
        return
    seen.add(id(function))
    note(f"function {function.__module__}.{function.__qualname__}".encode())
    names = _of_code(function.__code__, note)
    for value in (
        *(function.__defaults__ or ()),
        *(cell.cell_contents for cell in function.__closure__ or ()),
    ):
        _of_value(value, names, note, seen)
    for name in names:
        if name in function.__globals__:
            note(name.encode())
            _of_value(function.__globals__[name], names, note, seen)


def _of_code(code: CodeType, note: Callable[[bytes], None]) -> list[str]:
    """Tell what a piece of bytecode does; return the names that it uses."""
    names = list(code.co_names)
    shape = code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags
    note(repr((shape, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)).encode())
    note(code.co_code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names += _of_code(constant, note)
        elif isinstance(constant, frozenset):
            note(repr(sorted(map(repr, constant))).encode())
        else:
            note(repr((type(constant).__name__, constant)).encode())
    return list(dict.fromkeys(names))


def _of_value(value: Any, names: Iterable[str], note: Callable[[bytes], None], seen: set[int]) -> None:
    """Tell what a value that code refers to is. Code refers to a module's parts by `names`."""
    if isinstance(value, Dispatcher | FunctionType):
        if (value.__module__ or "").partition(".")[0] not in _KNOWN_BY_VERSION:
            made_from(value, note, seen)
    elif isinstance(value, ModuleType):
        note(value.__name__.encode())
        visit = hash((id(value), *names))  # modules can name each other
        if value.__name__.partition(".")[0] not in _KNOWN_BY_VERSION and visit not in seen:
            seen.add(visit)
            for name in names:
                if name in vars(value):
                    note(name.encode())
                    _of_value(vars(value)[name], names, note, seen)
    elif isinstance(value, tuple):
        note(f"{type(value).__qualname__}{getattr(value, '_fields', '')} {len(value)}".encode())
        for part in value:
            _of_value(part, names, note, seen)
    elif isinstance(value, np.ndarray):
        note(f"{value.dtype} {value.shape}".encode() + value.tobytes())
    elif isinstance(value, type):
        note(f"{value.__module__}.{value.__qualname__}{getattr(value, '_fields', '')}".encode())
    elif isinstance(value, _SCALARS):
        note(f"{type(value).__qualname__} {value!r}".encode())
    else:
        note(f"{type(value).__module__}.{type(value).__qualname__} {getattr(value, '__name__', '')}".encode())


def _of_types(types: Iterable[Any], note: Callable[[bytes], None], seen: set[int]) -> None:
    """Tell what argument types are. numba's own names of named tuples leave out the names of the fields."""
    for each in types:
        if isinstance(each, numba.types.Dispatcher):
            made_from(each.dispatcher, note, seen)
        elif isinstance(each, numba.types.BaseTuple):
            note(f"{type(each).__name__} {getattr(each, 'fields', '')} {len(each)}".encode())
            if isinstance(each, numba.types.BaseNamedTuple):
                note(f"{each.instance_class.__module__}.{each.instance_class.__qualname__}".encode())
            _of_types(each, note, seen)
        else:
            note(str(each).encode())


def folder(home: str | None) -> Path:
    """The folder of compiled code: in the user's cache, or else among the temporary files."""
    cache = home or os.path.expanduser("~/.cache")
    for place in (Path(cache) / "headgate", Path(tempfile.gettempdir()) / f"headgate-{os.getuid()}"):
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        found = place.lstat() if place.parent == Path(tempfile.gettempdir()) else place.stat()
        mine = found.st_uid == os.getuid() and not found.st_mode & 0o022  # nobody else puts code there
        if mine and stat.S_ISDIR(found.st_mode) and os.access(place, os.W_OK):
            return place
    return Path(tempfile.mkdtemp(prefix="headgate-"))
