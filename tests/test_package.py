"""What the two wheels hold: the library its own modules and nothing else, the laboratory only `headgate_lab`."""

import email
import subprocess
import zipfile
from pathlib import Path

import pytest

import headgate

ROOT = Path(__file__).parents[1]
SOURCES = {"headgate": ROOT / "src" / "headgate", "headgate_lab": ROOT / "lab" / "headgate_lab"}
PROJECTS = {"headgate": ROOT, "headgate_lab": ROOT / "lab"}
OF_THE_LAB = {"papers", "bench", "demo", "graphs", "cliques", "reproduce", "memory"}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Package -> its opened wheel, as this checkout makes it; the build needs no network once `script/bootstrap` has run."""
    folder = tmp_path_factory.mktemp("wheels")
    uv = subprocess.run(
        [ROOT / "script" / "find-uv"], capture_output=True, text=True, check=True
    ).stdout.strip()
    for project in PROJECTS.values():
        done = subprocess.run(
            [uv, "build", "--quiet", "--wheel", "--offline", "--out-dir", folder, project],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    opened = {path.name.partition("-")[0]: zipfile.ZipFile(path) for path in folder.glob("*.whl")}
    assert set(opened) == set(PROJECTS)
    yield opened
    for wheel in opened.values():
        wheel.close()


def files_of(source):
    return {
        path.relative_to(source.parent).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def metadata(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return email.message_from_bytes(wheel.read(name))


@pytest.mark.parametrize(
    ("package", "about"),
    [
        ("headgate", {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}),
        ("headgate_lab", {"METADATA", "WHEEL", "RECORD"}),
    ],
)
def test_a_wheel_holds_its_package_and_nothing_else(wheels, package, about) -> None:
    info = f"{package}-{headgate.__version__}.dist-info"
    wanted = files_of(SOURCES[package]) | {f"{info}/{name}" for name in about}
    assert set(wheels[package].namelist()) == wanted


def test_the_library_has_types_and_nothing_of_the_laboratory(wheels) -> None:
    names = [Path(name) for name in wheels["headgate"].namelist()]
    assert Path("headgate/py.typed") in names
    assert not [
        name for name in names if len(name.parts) > 1 and name.parts[1].removesuffix(".py") in OF_THE_LAB
    ]


def test_only_the_plot_of_a_simulation_draws_in_the_library(wheels) -> None:
    wheel = wheels["headgate"]
    modules = [name for name in wheel.namelist() if name.endswith(".py")]
    assert [name for name in modules if b"import Figure" in wheel.read(name)] == ["headgate/cli/simulate.py"]


def test_both_wheels_have_the_version_of_the_package(wheels) -> None:
    assert {metadata(wheel)["Version"] for wheel in wheels.values()} == {headgate.__version__}


def test_the_dependencies_are_these(wheels) -> None:
    needs = {package: metadata(wheel).get_all("Requires-Dist") for package, wheel in wheels.items()}
    always = {need.partition(">")[0] for need in needs["headgate"] if "extra ==" not in need}
    assert always == {"fsspec", "numba", "numpy", "pyarrow", "rich", "typer", "xxhash"}
    assert needs["headgate_lab"] == ["greenlet>=3", "headgate[mpc,plot,spark]", "psutil>=6"]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_every_folder_of_modules_is_a_package(source) -> None:
    folders = {path.parent for path in source.rglob("*.py")}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]
