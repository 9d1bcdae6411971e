"""A process with a bug: a module of the product is changed as it is loaded, then histories are played.

Nothing of the product may be imported before the change is in place, so this module imports none of it
at its head. It is run by `plant`, which sends the bug as JSON and reads what came of it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import islice
from types import CodeType, ModuleType
from typing import Any

from headgate_lab.chaos.children import end_with_parent


class Changed(SourceFileLoader):
    """Loads a module from its source with a text in it replaced by another."""

    def __init__(self, name: str, path: str, old: str, new: str) -> None:
        super().__init__(name, path)
        self._old, self._new = old, new

    def get_code(self, fullname: str) -> CodeType:
        """The code of the changed source; it is never cached."""
        path = self.get_filename(fullname)
        source = self.get_data(path).decode()
        return compile(source.replace(self._old, self._new), path, "exec", dont_inherit=True)


class Planter(MetaPathFinder):
    """Finds the one module that is changed."""

    def __init__(self, module: str, old: str, new: str) -> None:
        self._module, self._old, self._new = module, old, new

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module with the change, if it is this one."""
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None, f"there is no module {fullname}"
        assert spec.origin is not None, f"{fullname} has no source"
        spec.loader = Changed(fullname, spec.origin, self._old, self._new)
        return spec


def hunt(limit: int, way: str) -> dict[str, Any]:
    """Play histories from seed 0 on, or those of a way, until one fails: which one, and what was wrong."""
    from headgate_lab.chaos.garbage import rarely_collected
    from headgate_lab.chaos.history import history, seeds
    from headgate_lab.chaos.play import play

    with rarely_collected() as collect:
        for played, seed in enumerate(islice(seeds(way), limit), start=1):
            try:
                problems = play(history(seed)).problems
            except Exception as error:  # the world itself could not go on
                problems = [f"{type(error).__name__}: {error}"]
            if problems:
                return {"seed": seed, "problem": problems[0], "histories": played}
            collect()
    return {"seed": None, "problem": "", "histories": limit}


def main() -> None:
    """Plant the bug that is described on standard input, and print what came of it."""
    end_with_parent()
    asked = json.load(sys.stdin)
    assert asked["module"] not in sys.modules, "the module was loaded before it could be changed"
    sys.meta_path.insert(0, Planter(asked["module"], asked["old"], asked["new"]))
    started = time.perf_counter()
    found = hunt(asked["limit"], asked["way"])
    assert asked["module"] in sys.modules, "the histories never load the module"
    print(json.dumps({**found, "seconds": round(time.perf_counter() - started, 3)}))


if __name__ == "__main__":
    main()
