"""The rooms of the service: the core imports neither Spark nor HTTP, and the two rooms around it do not import each other."""

import ast
from pathlib import Path

import pytest

import headgate.service

ROOT = Path(headgate.service.__file__).parent
COMPOSITION = {"process.py", "__init__.py"}
FORBIDDEN = {
    "core": (
        "pyspark",
        "fastapi",
        "uvicorn",
        "httpx",
        "headgate.spark",
        "headgate.service.batch",
        "headgate.service.http",
    ),
    "batch": ("fastapi", "uvicorn", "httpx", "headgate.service.http"),
    "http": ("pyspark", "headgate.spark", "headgate.service.batch"),
    "delivery": (
        "pyspark",
        "fastapi",
        "uvicorn",
        "httpx",
        "headgate.spark",
        "headgate.service.batch",
        "headgate.service.http",
    ),
}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_what_it_may(path) -> None:
    if path.name in COMPOSITION:
        return
    room = path.relative_to(ROOT).parts[0] if path.parent != ROOT else "core"
    wrong = [n for n in imported(path) for f in FORBIDDEN[room] if n == f or n.startswith(f"{f}.")]
    assert wrong == []
