"""The scripts of the checkout, run on small fake trees: no network, no Spark, no real environment made."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BASH = shutil.which("bash") or "/bin/bash"
SCRIPTS = sorted([*(ROOT / "script").iterdir(), ROOT / ".ci" / "run"])


def run(*command: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)


def write_executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def write_java(home: Path, version: str) -> Path:
    """A `java` that says of itself what a real one of that version says."""
    settings = f"Property settings:\n    java.home = {home}\n    java.specification.version = {version}\n"
    settings += f"    java.vm.specification.version = {version}\n"
    return write_executable(home / "bin" / "java", f"#!{BASH}\nprintf '%s' '{settings}' >&2\n")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_script_is_valid_bash_and_executable(script: Path) -> None:
    assert script.read_text().startswith("#!/usr/bin/env bash\n")
    assert os.access(script, os.X_OK)
    assert run(BASH, "-n", script).stderr == ""


class TestJavaHome:
    @staticmethod
    def find(
        path: Path, *, jvm_dirs: Path | str = "", java_home: Path | str = ""
    ) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(path), "HEADGATE_JVM_DIRS": str(jvm_dirs), "JAVA_HOME": str(java_home)}
        return run(BASH, ROOT / "script" / "java-home", env=env)

    @pytest.mark.parametrize("version", ["17", "21", "25"])
    def test_takes_a_new_enough_java_on_the_path(self, tmp_path: Path, version: str) -> None:
        java = write_java(tmp_path / "jdk", version)
        assert self.find(java.parent).stdout == f"{tmp_path}/jdk\n"

    @pytest.mark.parametrize("version,shown", [("1.8", "8"), ("11", "11"), ("16", "16")])
    def test_refuses_an_old_java_and_names_it(self, tmp_path: Path, version: str, shown: str) -> None:
        java = write_java(tmp_path / "jdk", version)
        result = self.find(java.parent)
        assert (result.returncode, result.stdout) == (1, "")
        assert f"Java {shown} in {tmp_path}/jdk" in result.stderr

    def test_without_any_java_says_what_to_install(self, tmp_path: Path) -> None:
        result = self.find(tmp_path)
        assert (result.returncode, result.stdout) == (1, "")
        for words in (
            "Java 17 or newer",
            "apt-get install -y openjdk-17-jre-headless",
            "dnf install",
            "brew install",
        ):
            assert words in result.stderr

    def test_a_java_that_does_not_run_is_no_java(self, tmp_path: Path) -> None:
        write_executable(tmp_path / "java", f"#!{BASH}\necho 'no Java runtime present' >&2\nexit 1\n")
        assert self.find(tmp_path).returncode == 1

    def test_java_home_comes_before_the_path(self, tmp_path: Path) -> None:
        write_java(tmp_path / "wanted", "21")
        on_path = write_java(tmp_path / "other", "17")
        assert self.find(on_path.parent, java_home=tmp_path / "wanted").stdout == f"{tmp_path}/wanted\n"

    def test_an_old_java_home_gives_way_to_the_path(self, tmp_path: Path) -> None:
        write_java(tmp_path / "old", "11")
        on_path = write_java(tmp_path / "new", "17")
        assert self.find(on_path.parent, java_home=tmp_path / "old").stdout == f"{tmp_path}/new\n"

    def test_of_the_installed_ones_takes_the_oldest_that_will_do(self, tmp_path: Path) -> None:
        for version in ("25", "1.8", "17", "21", "11"):
            write_java(tmp_path / "jvm" / f"java-{version}", version)
        assert self.find(tmp_path, jvm_dirs=tmp_path / "jvm").stdout == f"{tmp_path}/jvm/java-17\n"

    def test_asks_a_wrapper_on_the_path_for_the_real_home(self, tmp_path: Path) -> None:
        real = write_java(tmp_path / "a place" / "jdk", "17")
        write_executable(tmp_path / "shims" / "java", f'#!{BASH}\nexec "{real}" "$@"\n')
        assert self.find(tmp_path / "shims").stdout == f"{tmp_path}/a place/jdk\n"


class Checkout:
    """A tree with the real scripts, a fake uv that writes down what it was asked, and a fake Java."""

    def __init__(self, root: Path, tools: Path) -> None:
        self.root = root
        self.tools = tools
        self.calls = tools / "calls"
        shutil.copytree(ROOT / "script", root / "script")
        (root / "requirements.lock").write_text("numpy==2.0\n")
        for project in (root, root / "lab"):
            project.mkdir(exist_ok=True)
            (project / "pyproject.toml").write_text("[project]\n")
        write_java(tools / "jdk", "17")
        write_executable(
            tools / "bin" / "uv",
            f"""#!{BASH}
            case "$1 ${{2-}}" in
              --version*) exit ;;
              venv*) for at; do :; done; mkdir -p "$at/bin"; ln -sf '{sys.executable}' "$at/bin/python" ;;
              "pip sync") [ ! -e '{tools}/no-network' ] || exit 2 ;;
            esac
            echo "${{1}} ${{2#--quiet}}" >>'{self.calls}'
            """,
        )

    def bootstrap(self, *, script: str = "script/bootstrap") -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": f"{self.tools}/bin:/usr/bin:/bin",
            "HOME": str(self.tools),
            "JAVA_HOME": f"{self.tools}/jdk",
        }
        return run(BASH, self.root / script, env=env)

    def take_calls(self) -> list[str]:
        calls = self.calls.read_text().splitlines() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return [call.strip() for call in calls]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "tree", tmp_path / "tools")


class TestBootstrap:
    def test_second_run_does_and_says_nothing(self, checkout: Checkout) -> None:
        assert checkout.bootstrap().returncode == 0
        assert checkout.take_calls() == ["venv", "pip sync", "pip install"]
        again = checkout.bootstrap()
        assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
        assert checkout.take_calls() == []

    @pytest.mark.parametrize(
        "name,calls",
        [
            ("requirements.lock", ["pip sync", "pip install"]),
            ("pyproject.toml", ["pip install"]),
            ("lab/pyproject.toml", ["pip install"]),
        ],
    )
    def test_a_changed_input_is_installed_in_place(
        self, checkout: Checkout, name: str, calls: list[str]
    ) -> None:
        checkout.bootstrap()
        checkout.take_calls()
        with (checkout.root / name).open("a") as file:
            file.write("# changed\n")
        assert checkout.bootstrap().returncode == 0
        assert checkout.take_calls() == calls

    def test_an_environment_made_by_hand_is_brought_up_to_date(self, checkout: Checkout) -> None:
        (checkout.root / ".venv" / "bin").mkdir(parents=True)
        (checkout.root / ".venv" / "bin" / "python").symlink_to(sys.executable)
        assert checkout.bootstrap().returncode == 0
        assert checkout.take_calls() == ["pip sync", "pip install"]

    def test_an_interrupted_run_is_started_over(self, checkout: Checkout) -> None:
        (checkout.tools / "no-network").touch()
        failed = checkout.bootstrap()
        assert failed.returncode == 1
        assert "the first run needs the network" in failed.stderr
        (checkout.tools / "no-network").unlink()
        checkout.take_calls()
        assert checkout.bootstrap().returncode == 0
        assert checkout.take_calls() == ["venv", "pip sync", "pip install"]

    def test_an_environment_whose_python_is_gone_is_made_anew(self, checkout: Checkout) -> None:
        checkout.bootstrap()
        checkout.take_calls()
        (checkout.root / ".venv" / "bin" / "python").unlink()
        assert checkout.bootstrap().returncode == 0
        assert checkout.take_calls() == ["venv", "pip sync", "pip install"]

    def test_a_moved_tree_gets_a_new_environment(self, checkout: Checkout) -> None:
        checkout.bootstrap()
        checkout.take_calls()
        checkout.root = checkout.root.rename(checkout.root.with_name("moved"))
        assert checkout.bootstrap().returncode == 0
        assert checkout.take_calls() == ["venv", "pip sync", "pip install"]

    def test_sourcing_it_exports_java_home(self, checkout: Checkout) -> None:
        text = f"#!{BASH}\nunset JAVA_HOME\nPATH={checkout.tools}/jdk/bin:$PATH\n"
        text += 'source "${BASH_SOURCE[0]%/*}/bootstrap"\nprintenv JAVA_HOME\n'
        write_executable(checkout.root / "script" / "probe", text)
        assert checkout.bootstrap(script="script/probe").stdout == f"{checkout.tools}/jdk\n"


class TestTest:
    """`script/test` on a tree whose Python only says that tests passed or failed."""

    @staticmethod
    def run_test(tree: Path, *arguments: str, fails: str = "nothing") -> tuple[int, list[str]]:
        script = tree / "script" / "test"
        if not script.exists():
            write_executable(script, (ROOT / "script" / "test").read_text())
            write_executable(tree / "script" / "docs", (ROOT / "script" / "docs").read_text())
        (tree / "script" / "bootstrap").write_text(f"root='{tree}'\n")
        write_executable(
            tree / ".venv" / "bin" / "python",
            f'#!{BASH}\necho "ran $*"\n'
            f"case \"$*\" in *pytest*) echo '= 5 passed, 1 skipped in 0.12s =' ;; esac\n"
            f'case "$*" in *{fails}*) exit 1 ;; esac\n',
        )
        result = run(BASH, script, *arguments)
        return result.returncode, result.stdout.splitlines()

    def test_last_line_sums_up_both_runs_of_pytest(self, tmp_path: Path) -> None:
        code, lines = self.run_test(tmp_path)
        assert code == 0
        assert lines[-1].startswith("10 passed in ")
        assert lines[-1].endswith("(spark: 5 passed, 1 skipped in 0.12s; core: 5 passed, 1 skipped in 0.12s)")

    def test_core_tests_run_without_pyspark(self, tmp_path: Path) -> None:
        ran = [line for line in self.run_test(tmp_path)[1] if "pytest" in line]
        assert ran == [
            "ran -m pytest --color=no --durations=5 tests/spark tests/chaos tests/lab/spark",
            "ran -m pytest --color=no --durations=5 -p tests.no_pyspark",
        ]

    def test_fast_leaves_spark_out_and_full_is_passed_on(self, tmp_path: Path) -> None:
        ran = [line for line in self.run_test(tmp_path, "--fast", "--full")[1] if "pytest" in line]
        assert ran == ["ran -m pytest --color=no --durations=5 --full -p tests.no_pyspark"]

    def test_coverage_is_measured_when_asked_for_and_printed_at_the_end(self, tmp_path: Path) -> None:
        code, lines = self.run_test(tmp_path, "--fast", "--coverage")
        ran = [line for line in lines if "coverage" in line and line.startswith("ran")]
        assert code == 0
        assert ran == [
            "ran -m coverage run -m pytest --color=no --durations=5 -p tests.no_pyspark",
            "ran tests/coverage_table.py",
        ]

    def test_arguments_go_to_one_plain_pytest(self, tmp_path: Path) -> None:
        code, lines = self.run_test(tmp_path, "tests/routing", "--full", "-k", "a or b")
        assert (code, lines[0]) == (0, "ran -m pytest --full tests/routing -k a or b")
        assert len(lines) == 2

    @pytest.mark.parametrize(
        "fails,named",
        [
            ("mypy", "mypy"),
            ("format", "ruff format"),
            ("headgate_lab.site", "docs"),
            ("no_pyspark", "core tests"),
        ],
    )
    def test_a_failure_is_named_and_hides_no_other_part(self, tmp_path: Path, fails: str, named: str) -> None:
        code, lines = self.run_test(tmp_path, fails=fails)
        assert code == 1
        assert lines[-1].startswith(f"FAILED: {named} (spark: ")
        assert sum(line.startswith("== ") and " in " in line for line in lines) == 6


def test_ci_runs_the_test_script_from_the_root(tmp_path: Path) -> None:
    write_executable(tmp_path / ".ci" / "run", (ROOT / ".ci" / "run").read_text())
    write_executable(tmp_path / "script" / "test", f'#!{BASH}\necho "$PWD $#"\n')
    assert run(tmp_path / ".ci" / "run").stdout == f"{tmp_path} 0\n"


def test_hidden_pyspark_is_absent_in_every_way() -> None:
    program = """
import importlib.metadata, importlib.util, tests.no_pyspark
import numpy
print(importlib.util.find_spec("pyspark"), importlib.util.find_spec("py4j"))
for attempt in (lambda: __import__("pyspark.sql"), lambda: importlib.metadata.version("pyspark")):
    try:
        attempt()
    except ModuleNotFoundError as error:
        print(type(error).__name__)
print(importlib.metadata.version("numpy") == numpy.__version__)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.stdout.splitlines() == [
        "None None",
        "ModuleNotFoundError",
        "PackageNotFoundError",
        "True",
    ], result.stderr
