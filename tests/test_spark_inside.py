"""Private and experimental interfaces of Spark are used in one file, `spark/inside.py`, where each has its fallback."""

import ast
import re
from pathlib import Path

import pytest

import headgate

ROOT = Path(headgate.__file__).parent
INSIDE = ROOT / "spark" / "inside.py"
PUBLIC = {
    "pyspark": {"RDD", "SparkConf", "SparkContext", "StorageLevel", "TaskContext"},
    "pyspark.accumulators": {"Accumulator", "AccumulatorParam"},
    "pyspark.errors": None,
    "pyspark.sql": None,
    "pyspark.sql.functions": None,
    "pyspark.sql.streaming": None,
    "pyspark.sql.types": None,
    "pyspark.util": {"inheritable_thread_target"},
}
"""What PySpark documents, of what headgate uses: modules, and the names in them (None: all)."""
PRIVATE = re.compile(
    r"_j[a-z]\w*|_sc|_client|_gateway|_ensure_initialized|_active_spark_context|_instantiated\w*"
)
"""Attributes of PySpark's objects that are its own."""
TEXT = re.compile(
    r"org\.apache\.spark\.|pyspark\.(daemon|worker|sql\.connect)|sql\.streaming\.queryId|spark\.python\.daemon"
)
"""Names of classes, modules and settings that Spark does not document."""
ELSEWHERE = {
    # The core looks for the daemon of Spark's workers by name; where there is none, the cache is that of the parent process.
    "storage/bin_cache.py": {"pyspark.worker"},
    # A key in Parquet files, which stays as it is: files outlive versions.
    "spark/types.py": {"org.apache.spark.sql.parquet.row.metadata"},
}
READS_LOGS = "doctor"
"""Reads the event logs that Spark has written, without Spark; a name in them that it does not know is passed over."""
USES_SPARK = [ROOT / "spark", ROOT / "service" / "batch"]


def faults_of(path: Path, text: str) -> list[str]:
    """What a file uses of Spark's inside, in words."""
    tree = ast.parse(text)
    found = []
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    with_spark = any(path.is_relative_to(folder) for folder in USES_SPARK)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in ("pyspark", "py4j") and alias.name not in PUBLIC:
                    found.append(f"line {node.lineno} imports {alias.name}")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("pyspark", "py4j"):
            public = PUBLIC.get(node.module or "", set())
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if public is not None and alias.name not in public and inner not in PUBLIC:
                    found.append(f"line {node.lineno} imports {inner}")
        elif isinstance(node, ast.Attribute) and with_spark and PRIVATE.fullmatch(node.attr):
            mine = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not mine:
                found.append(f"line {node.lineno} uses .{node.attr}")
        elif isinstance(node, ast.Constant) and id(node) not in prose:
            value = node.value.decode("latin1") if isinstance(node.value, bytes) else node.value
            logs = path.relative_to(ROOT).parts[0] == READS_LOGS
            if isinstance(value, str) and TEXT.match(value) and not logs:
                found.append(f"line {node.lineno} names {value}")
    allowed = ELSEWHERE.get(path.relative_to(ROOT).as_posix(), set())
    return [fault for fault in found if fault.rpartition(" ")[2] not in allowed]


MODULES = [path for path in sorted(ROOT.rglob("*.py")) if path != INSIDE]


def test_no_other_file_uses_the_inside_of_spark() -> None:
    found = {
        str(path.relative_to(ROOT)): faults_of(path, path.read_text(encoding="utf-8")) for path in MODULES
    }
    assert {name: faults for name, faults in found.items() if faults} == {}


@pytest.mark.parametrize(
    "text",
    [
        "spark.sparkContext._jsc.sc()",
        "frame._jdf",
        "spark._jvm.java",
        "session._client",
        "SparkContext._ensure_initialized()",
        "def f():\n    from pyspark.daemon import manager",
        "from pyspark import cloudpickle",
        "import pyspark.cloudpickle",
        "from pyspark.sql.pandas.types import to_arrow_type",
        "from pyspark.sql.connect.session import SparkSession",
        "from py4j.protocol import Py4JError",
        "import py4j",
        'SETTINGS = {"spark.python.daemon.module": "x"}',
        'context.getLocalProperty("sql.streaming.queryId")',
        'type(s).__module__.startswith("pyspark.sql.connect")',
        'RULE = "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation"',
    ],
)
def test_the_check_itself_finds(text: str) -> None:
    assert faults_of(ROOT / "spark" / "stage.py", text)


@pytest.mark.parametrize(
    "text",
    [
        '"""pyspark.daemon in prose"""',
        "from pyspark.sql import DataFrame, functions as F, types as T",
        "from pyspark.errors import UnsupportedOperationException",
        "self._job.run()",
    ],
)
def test_the_check_itself_leaves_alone(text: str) -> None:
    assert faults_of(ROOT / "spark" / "stage.py", text) == []


def test_the_one_file_has_them_and_says_of_each_what_happens_without_it() -> None:
    text = INSIDE.read_text(encoding="utf-8")
    assert len(faults_of(INSIDE, text)) >= 6
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            said = ast.get_docstring(node) or ""
            assert "4.1 to 4.3" in said, f"{node.name} does not say which versions have it"
            assert re.search(r"[Ww]ithout|Under another name", said), (
                f"{node.name} does not say what it does without it"
            )
