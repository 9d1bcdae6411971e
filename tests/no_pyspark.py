"""A pytest plugin under which pyspark is not installed, whatever the environment holds.

`pytest -p tests.no_pyspark` proves that the core needs no pyspark, and takes no second environment to prove it in. It
leaves out the folders of the tests that need it. Importing this module has the effect, so a program can do it too.

It hides the packages where Python looks for them: `import pyspark` raises ModuleNotFoundError,
`importlib.util.find_spec("pyspark")` is None, and `importlib.metadata` knows no such distribution.
It does not reach subprocesses: one that must do without pyspark begins with `import tests.no_pyspark`.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path

HIDDEN = frozenset({"pyspark", "py4j"})
NEEDS_SPARK = frozenset(Path(__file__).parent / name for name in ("spark", "chaos", "lab/spark"))


class HidingFinder:
    """Python's own path finder, blind to the hidden packages."""

    @staticmethod
    def find_spec(name, path=None, target=None) -> ModuleSpec | None:
        if name.partition(".")[0] in HIDDEN:
            return None
        return PathFinder.find_spec(name, path, target)

    @staticmethod
    def find_distributions(context: DistributionFinder.Context | None = None) -> list[Distribution]:
        found = PathFinder.find_distributions(context or DistributionFinder.Context())
        return [each for each in found if each.metadata["Name"] not in HIDDEN]

    @staticmethod
    def invalidate_caches() -> None:
        PathFinder.invalidate_caches()


def hide_pyspark() -> None:
    """Hide pyspark from every later import; one that already happened cannot be undone, and is an error."""
    if loaded := HIDDEN.intersection(sys.modules):
        raise RuntimeError(f"already imported: {', '.join(sorted(loaded))}; load tests.no_pyspark before it")
    sys.meta_path[:] = [HidingFinder if finder is PathFinder else finder for finder in sys.meta_path]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    # Deselecting by mark would come after importing the test modules, and these import pyspark at their head.
    return True if collection_path in NEEDS_SPARK else None


def pytest_report_header() -> str:
    return "pyspark: hidden"


hide_pyspark()
