"""What is in the wheel: every module and package, the page of the service, and the mark that says that headgate has types."""

import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The names in the wheel that this checkout makes; the build needs no network once `script/bootstrap` has run."""
    folder = tmp_path_factory.mktemp("wheel")
    uv = subprocess.run(
        [ROOT / "script" / "find-uv"], capture_output=True, text=True, check=True
    ).stdout.strip()
    done = subprocess.run(
        [uv, "build", "--quiet", "--wheel", "--offline", "--out-dir", folder, ROOT],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as file:
        return set(file.namelist())


def test_the_wheel_has_types(wheel) -> None:
    assert "headgate/py.typed" in wheel


def test_the_wheel_has_every_file_of_the_package(wheel) -> None:
    source = ROOT / "src"
    files = (
        path
        for path in (source / "headgate").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    assert {path.relative_to(source).as_posix() for path in files} <= wheel


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "src" / "headgate").rglob("*.py")}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]
