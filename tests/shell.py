"""The commands that pages show in blocks of shell, and what happens to each in our tests."""

import re
import shlex
from pathlib import Path

from tests.docs import DOCS, ROOT

BLOCK = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.S | re.M)
COMMAND = re.compile(
    r"(headgate|pip|python3?|java|script/\w+|docker|bin/[\w.-]+|mkdir|kill|export|moto_server|spark-submit|\$\w+/?)\b"
)
SERVED = (
    "recipes/standing-queries.md",
    "reference/service.md",
    "operate/service-security.md",
    "operate/service.md",
)
"""Pages whose commands talk to a service: `tests/service/test_page_commands.py` runs them against one."""
SMALLER = {
    r"^(headgate simulate slow .*)$": r"\1 --seconds 1 --machines 2",
    r"^(headgate simulate memory .*)--seconds 60(.*)$": r"\1--seconds 1\2",
    r"^headgate chaos(?: --histories \d+)?$": "headgate chaos --histories 2",
}
"""What is run instead of commands that take minutes: the same, smaller."""
NOT_RUN = {
    r"^pip install": "needs a package index; tests/test_package.py installs the wheels and runs the README's example",
    r"^python3 -m venv|^mkdir ": "the shell's own; tests/spark/test_pages.py makes these folders",
    r"^java -version|^python3 --version": "says what is installed, nothing of ours",
    r"^script/": "tests/test_scripts.py tests the scripts",
    r"^docker |^bin/kafka-": "somebody else's broker or database; tests/kafka_broker.py and tests/databases.py start them",
    r"^headgate (serve|watch)\b": "serves until it is stopped; tests/service/test_process.py, tests/watch/test_server.py",
    r"^headgate query list --url http://127.0.0.1:8620,": "two services and their standby; tests/service/test_standby.py",
    r"^headgate (reproduce|bench \w)": "measures for minutes; tests/lab runs them with --quick",
    r"^headgate chaos --plant$": "takes hours; tests/lab/chaos runs some mistakes",
    r"^headgate (rmat|cliques) ": "Spark; tests/lab/spark runs them on smaller graphs",
    r"^headgate replay CHECKPOINT": "needs the checkpoint of a query; tests/cli/test_replay.py has one",
    r"^export |^\$SPARK_HOME|^\$PYSPARK_PYTHON": "a cluster; tests/chaos/test_cluster.py starts one in this way",
    r"^spark-submit ": "YARN, which the page marks as not run",
    r"^moto_server|^python -c .import s3fs": "tests/storage/s3.py starts the same server",
    r"^kill -9 DRIVER": "tests/chaos/test_driver_kill.py does it",
}
"""Commands that are not run, and why."""


def blocks(text: str) -> list[list[str]]:
    """The commands of each block of shell of a page, without comments. A line that ends with a backslash goes on."""
    found = []
    for kind, body in BLOCK.findall(text):
        lines = [line.strip() for line in body.replace("\\\n", " ").splitlines()]
        if kind == "sh" or (not kind and any(COMMAND.match(line) for line in lines)):
            found.append([line for line in lines if line and not line.startswith("#")])
    return found


def commands(page: Path) -> list[str]:
    """The commands of a page, one by one, without comments."""
    lines = (line for block in blocks(page.read_text()) for line in block)
    return [re.sub(r"\s+# .*$", "", line) for line in lines]


def reason(command: str) -> str | None:
    """Why a command is not run."""
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, command)), None)


def smaller(command: str) -> str:
    """What is run: the command, or the same made smaller."""
    for pattern, instead in SMALLER.items():
        command = re.sub(pattern, instead, command)
    return command


def words(command: str) -> list[str]:
    """The words of a command after `headgate`."""
    return shlex.split(smaller(command))[1:]


def shown() -> list[tuple[str, str]]:
    """Page and command, of all pages."""
    pages = {page.relative_to(DOCS).as_posix(): page for page in sorted(DOCS.rglob("*.md"))}
    every = {**pages, "README.md": ROOT / "README.md"}
    return [(name, command) for name, page in every.items() for command in commands(page)]
