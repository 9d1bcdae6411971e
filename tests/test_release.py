"""What a release is made of: builds that repeat byte for byte, a citation, the licences of what comes along."""

import hashlib
import importlib.metadata
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import headgate

ROOT = Path(__file__).parents[1]
LICENCES = ROOT / "LICENCES.md"


@pytest.fixture(scope="module")
def uv():
    return subprocess.run(
        [ROOT / "script" / "find-uv"], capture_output=True, text=True, check=True
    ).stdout.strip()


def built(uv, project, folder):
    """File name -> its digest, of the wheel and the sdist of a project."""
    done = subprocess.run(
        [uv, "build", "--quiet", "--wheel", "--sdist", "--offline", "--out-dir", folder, project],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("headgate*")}


@pytest.mark.parametrize("project", [ROOT, ROOT / "lab"], ids=["headgate", "headgate-lab"])
def test_a_build_repeats_byte_for_byte(uv, tmp_path, project) -> None:
    first, second = (built(uv, project, tmp_path / name) for name in ("first", "second"))
    assert len(first) == 2
    assert first == second


@pytest.mark.full
def test_the_wheel_in_a_clean_environment_runs_the_readme(uv, java_home, tmp_path) -> None:
    """Needs the network, or a warm cache of uv."""
    wheels = tmp_path / "wheels"
    built(uv, ROOT, wheels)
    (wheel,) = wheels.glob("*.whl")
    python = tmp_path / "env" / "bin" / "python"
    for command in (
        [uv, "venv", "--quiet", "--no-project", "--python", "3.11", tmp_path / "env"],
        [uv, "pip", "install", "--quiet", "--python", python, f"headgate[spark] @ {wheel.as_uri()}"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    first = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert first
    (tmp_path / "first.py").write_text(first[1])
    done = subprocess.run(
        [python, "first.py"], cwd=tmp_path, env={"JAVA_HOME": java_home, "PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "ended, batch 0" in done.stdout


def test_the_citation_names_this_version_and_the_five_papers() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)  # what the format asks for
    assert citation["version"] == headgate.__version__
    assert [paper["title"].split()[0].strip(':"').lower() for paper in citation["references"]] == [
        "flux", "partitioning", "online", "faucet", "servicing"
    ]  # fmt: skip
    assert all({"type", "title", "authors", "year"} <= set(paper) for paper in citation["references"])


def direct_dependencies() -> dict[str, set[str]]:
    """Distribution -> the extras that bring it ("" for a plain install)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    found: dict[str, set[str]] = {}
    for extra, needs in groups.items():
        for need in needs:
            name = re.match(r"[A-Za-z0-9._-]+", need)
            assert name
            found.setdefault(name.group(), set()).add(extra)
    return found


def listed() -> dict[str, tuple[str, str]]:
    """Distribution -> what brings it, and its licence, as LICENCES.md says."""
    rows = (
        re.fullmatch(r"\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|", line)
        for line in LICENCES.read_text().splitlines()
    )
    return {cells[1]: (cells[2], cells[3]) for cells in rows if cells}


def test_the_licence_of_every_dependency_is_listed() -> None:
    told = {name: set(re.findall(r"`([^`]+)`", comes_with)) for name, (comes_with, _) in listed().items()}
    assert told == {
        name: {extra or "headgate" for extra in extras} for name, extras in direct_dependencies().items()
    }


def test_a_licence_is_what_the_installed_package_says() -> None:
    """Compared by the family of the licence: packages spell one licence in many ways."""
    families = {
        r"\bapache\b": "Apache", r"\blgpl\b": "LGPL", r"\bbsd\b": "BSD", r"\bmit\b": "MIT",
        r"python software foundation": "PSF",
    }  # fmt: skip
    seen = 0
    for name, (_, licence) in listed().items():
        try:
            about = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # an extra that this environment does not have
        texts = [text for field in ("License-Expression", "License") for text in about.get_all(field) or []]
        said = [text[:200] for text in texts] + (about.get_all("Classifier") or [])
        found = [family for word, family in families.items() if re.search(word, " ".join(said).lower())]
        assert any(family in licence for family in found), f"{name}: {said}"
        seen += 1
    assert seen > 20
