"""The pages about Kafka, lakehouses and databases: their examples run, word for word. The programs of ten lines run alone, in
an empty folder.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.databases import Database, postgres
from tests.kafka_mock import MockCluster

__all__ = ["postgres"]
DOCS = Path(__file__).parents[2] / "docs"
BROKERS, URL = "localhost:9092", "postgresql://ann@localhost/shop"
ROWS = [{"user": 1, "amount": 2.0}, {"user": 2, "amount": 5.0}, {"user": 1, "amount": 3.0}]
TOTALS = [(1, 2, 5.0), (2, 1, 5.0)]
PROGRAMS = {
    "Kafka to Delta": ("lakehouse", "From Kafka to Delta"),
    "Kafka to Iceberg": ("lakehouse", "From Kafka to Iceberg"),
    "Kafka to Kafka": ("kafka", "From Kafka to Kafka"),
    "files to PostgreSQL": ("databases", "From files to PostgreSQL"),
}


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    """Brokers whose topic `events` has records."""
    made = MockCluster(1)
    for topic in ("events", "totals"):
        made.create(topic, 1)
    made.produce("events", [json.dumps(row).encode() for row in ROWS], 0)
    yield made
    made.close()


def blocks_of(text: str, **places: str) -> list[str]:
    """The examples of a text, with addresses that exist here."""
    found = re.findall(r"```python\n(.*?)```", text, re.S)
    for ours, here in ((BROKERS, places.get("brokers")), (URL, places.get("url"))):
        found = [block.replace(ours, here or ours) for block in found]
    return found


def run(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **places: str) -> int:
    """Run the examples of a text in a folder, in order, and return how many there are."""
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "page"}
    blocks = blocks_of(text, **places)
    for number, block in enumerate(blocks):
        exec(compile(block, f"example {number}", "exec"), names)
    return len(blocks)


def put_files(folder: Path) -> None:
    (folder / "in/events").mkdir(parents=True)
    (folder / "in/events/one.json").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))


def test_the_rows_of_the_page_about_databases_are_those_of_the_tests() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", (DOCS / "reference/databases.md").read_text(), re.S)
    assert [json.loads(line) for line in shown.splitlines()] == ROWS


def program(name: str, **places: str) -> str:
    """The first example of a section."""
    page, title = PROGRAMS[name]
    text = (DOCS / f"reference/{page}.md").read_text()
    return blocks_of(text[text.index(f"## {title}\n") :], **places)[0]


def written(name: str, folder: Path, cluster: MockCluster, url: str) -> list[tuple[Any, ...]]:
    """What a program has written, as another reader sees it."""
    if name == "Kafka to Delta":
        import deltalake

        rows = deltalake.DeltaTable(str(folder / "lake/users")).to_pyarrow_dataset().to_table().to_pylist()
    elif name == "Kafka to Iceberg":
        catalogs = pytest.importorskip("pyiceberg.catalog")
        catalog = catalogs.load_catalog(type="sql", uri=f"sqlite:///{folder}/catalog.db")
        rows = catalog.load_table("shop.users").scan().to_arrow().to_pylist()
        catalog.close()
    elif name == "Kafka to Kafka":
        rows = [json.loads(message.value()) for message in cluster.read("totals")]
    else:
        database = Database(url)
        found = database.run('SELECT "user", n, total FROM users')
        database.run("DROP TABLE users, headgate_batches")
        return sorted(found)
    return sorted((row["user"], row["n"], row["total"]) for row in rows)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_about_ten_lines(name: str) -> None:
    assert len([line for line in program(name).splitlines() if line]) <= 10


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_alone(
    name: str, spark: Any, cluster: MockCluster, request: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    url = request.getfixturevalue("postgres") if "PostgreSQL" in name else ""
    if "files" in name:
        put_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    text = program(name, brokers=cluster.servers, url=url)
    exec(compile(text, name, "exec"), {"__name__": "page"})
    assert written(name, tmp_path, cluster, url) == TOTALS


@pytest.mark.full
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_alone_in_a_process_of_its_own(
    name: str, java_home: str, cluster: MockCluster, request: Any, tmp_path: Path
) -> None:
    url = request.getfixturevalue("postgres") if "PostgreSQL" in name else ""
    if "files" in name:
        put_files(tmp_path)
    (tmp_path / "program.py").write_text(program(name, brokers=cluster.servers, url=url))
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert written(name, tmp_path, cluster, url) == TOTALS


def test_the_examples_of_the_page_about_lakehouses_run(spark: Any, tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    text = (DOCS / "reference/lakehouse.md").read_text()
    assert run(text[text.index("## Write a Delta table") :], tmp_path, monkeypatch) == 4


def test_the_examples_of_the_page_about_databases_run(
    spark: Any, postgres: str, tmp_path: Path, monkeypatch: Any
) -> None:
    put_files(tmp_path)
    assert run((DOCS / "reference/databases.md").read_text(), tmp_path, monkeypatch, url=postgres) == 2
    assert written("files to PostgreSQL", tmp_path, None, postgres) == TOTALS  # type: ignore[arg-type]


def test_the_recipe_from_kafka_to_delta_runs(
    spark: Any, cluster: MockCluster, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("deltalake")
    text = (DOCS / "recipes/kafka-to-delta.md").read_text()
    cluster.delete("events")  # the page sends its records itself
    assert run(text, tmp_path, monkeypatch, brokers=cluster.servers) == 3
    (shown,) = re.findall(r"```text\n(.*?)```", text, re.S)
    assert capsys.readouterr().out == shown


def test_the_files_that_the_pages_name_exist() -> None:
    for page in ("kafka", "lakehouse", "databases"):
        for name in re.findall(
            r"`((?:tests|benchmarks)/[\w/.-]+)`", (DOCS / f"reference/{page}.md").read_text()
        ):
            assert (DOCS.parent / name).exists(), name
