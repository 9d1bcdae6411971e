"""What every test can count on: the `--full` option, the `spark` mark and session, the Hypothesis profiles.

Everything under `tests/spark`, `tests/lab/spark` and `tests/chaos` is marked `spark`. Nothing here imports pyspark or headgate
before a test asks for the session, so the core tests run where pyspark is not installed.
"""

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS = Path(__file__).parent
# A JVM of the tests lives for minutes at most, and there its optimising compiler costs more than it saves.
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SPARK_DIRS = (TESTS / "spark", TESTS / "chaos", TESTS / "lab" / "spark")

# "ci" gives the same examples every time: a red build is red again on the next try. "full" does too, and gives more of
# them; --full selects it. To hunt for new examples: script/test --hypothesis-profile=explore
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.register_profile("full", deadline=None, derandomize=True, max_examples=100)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
hypothesis.settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the tests marked full (long) too")
    parser.addoption(
        "--connect", help="give the tests a session of Spark Connect: local[2], or a server's sc://..."
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "classic: needs a classic session of Spark; left out with --connect")
    config.addinivalue_line("markers", "connect: needs a session of Spark Connect; runs with --connect")
    if config.getoption("--full") and not config.getoption("--hypothesis-profile"):
        hypothesis.settings.load_profile("full")
    if not config.pluginmanager.has_plugin("tests.no_pyspark"):
        # py4j leaves its connections and its JVM to the end of the process; any test could get the blame.
        config.addinivalue_line(
            "filterwarnings", r"ignore:unclosed <socket\.socket .*(127\.0\.0\.1|\.sock):ResourceWarning"
        )
        config.addinivalue_line("filterwarnings", r"ignore:subprocess \d+ is still running:ResourceWarning")


@pytest.hookimpl(tryfirst=True)  # before pytest's own, which selects by mark
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.path.is_relative_to(directory) for directory in SPARK_DIRS):
            item.add_marker(pytest.mark.spark)
        if item.get_closest_marker("full") and not config.getoption("--full"):
            item.add_marker(pytest.mark.skip(reason="long; runs with --full"))
        if item.get_closest_marker("classic") and config.getoption("--connect"):
            item.add_marker(pytest.mark.skip(reason="needs a classic session"))
        if item.get_closest_marker("connect") and not config.getoption("--connect"):
            item.add_marker(pytest.mark.skip(reason="needs a session of Spark Connect; runs with --connect"))


@pytest.fixture(scope="session")
def java_home() -> str:
    """Home of a Java that Spark can run on, put into the environment for this process and its children."""
    found = subprocess.run(
        [TESTS.parent / "script" / "java-home"], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.fail(found.stderr, pytrace=False)
    os.environ["JAVA_HOME"] = found.stdout.strip()
    os.environ.setdefault("JDK_JAVA_OPTIONS", SHORT_LIVED_JVM)
    return os.environ["JAVA_HOME"]


@pytest.fixture(scope="session")
def spark(
    java_home: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator["SparkSession"]:
    """One local session with two cores for all tests marked spark, set up by `headgate.configure`. With `--connect`
    the tests talk to it through Spark Connect.
    """
    from pyspark.sql import SparkSession

    import headgate as hg

    os.environ["PYSPARK_PYTHON"] = sys.executable
    connect = request.config.getoption("--connect")
    start = SparkSession.builder
    builder = (
        (start.remote(connect) if connect else start.master("local[2]"))
        .appName("headgate-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    )
    with warnings.catch_warnings():
        if connect:  # before 4.3 a client warns of settings that the server has taken from it at its start
            warnings.filterwarnings("ignore", message="Failed to set")
        session = hg.configure(builder).getOrCreate()
    if not connect:
        session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
