"""Delta and Iceberg tables on S3, on a real S3 protocol server: checkpoint and table there, drivers that die at any step."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.stage.staged import Staged, killed_everywhere
from tests.storage.s3 import BUCKET, server

import headgate as hg

deltalake = pytest.importorskip("deltalake")
catalogs = pytest.importorskip("pyiceberg.catalog")
pytest.importorskip("s3fs")
STEPS = ("open", "_add_columns", "_adopt", "_commit", "_merge", "_upsert")
OPTIONS = {"AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
EXPECTED = {"append": [(1, 1), (1, 2), (2, 1)], "upsert": [(1, 2), (2, 1)]}
KINDS: dict[str, dict[str, Any]] = {"append": {}, "upsert": {"mode": "upsert", "key": "k"}}


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with server() as address:
        yield address


class Folder:
    """Paths on S3, as a test writes them."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __truediv__(self, name: str) -> "Folder":
        return Folder(f"{self.path}/{name}")

    def __str__(self) -> str:
        return self.path


def pairs(rows: pa.Table) -> list[tuple[Any, Any]]:
    return sorted((row["k"], row["n"]) for row in rows.to_pylist())


def steps_of(sink: Any) -> Any:
    return {sink._table: [name for name in STEPS if hasattr(sink._table, name)]}


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_a_delta_table_on_s3(kind, s3) -> None:
    place = f"s3://{BUCKET}/delta-{kind}"

    def make(at: int) -> hg.sinks.Delta:
        return hg.sinks.Delta(f"{place}/t{at}", storage_options=OPTIONS, **KINDS[kind])

    def check(at: int) -> None:
        table = deltalake.DeltaTable(f"{place}/t{at}", storage_options=OPTIONS)
        assert pairs(pa.table(table.scan())) == EXPECTED[kind]

    assert killed_everywhere(make, steps_of, Folder(place), check) >= 4


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_an_iceberg_table_on_s3(kind, s3, tmp_path) -> None:
    place = f"s3://{BUCKET}/iceberg-{kind}"
    catalog = catalogs.load_catalog(
        "test",
        type="sql",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse=place,
        **{
            "s3.endpoint": s3,
            "s3.access-key-id": "testing",
            "s3.secret-access-key": "testing",
            "s3.region": "us-east-1",
        },
    )

    def make(at: int) -> hg.sinks.Iceberg:
        return hg.sinks.Iceberg(f"shop.t{at}", catalog=catalog, **KINDS[kind])

    def check(at: int) -> None:
        assert pairs(catalog.load_table(f"shop.t{at}").scan().to_arrow()) == EXPECTED[kind]

    assert killed_everywhere(make, steps_of, Folder(place), check) >= 4
    catalog.close()


def test_a_delta_table_on_s3_is_a_source(s3) -> None:
    path = f"s3://{BUCKET}/source/t"
    staged = Staged(Folder(f"s3://{BUCKET}/source/c"))
    sink = hg.sinks.Delta(path, storage_options=OPTIONS)
    staged.start(sink)
    sink.publish(staged.add([{"k": 1, "n": 1}]))
    source = hg.sources.Delta(path, storage_options=OPTIONS)
    planned = source.plan(None, hg.sources.Demand(rows=10))
    sink.publish(staged.add([{"k": 2, "n": 1}]))
    later = source.plan(planned.offset, hg.sources.Demand(rows=10))
    rows = [
        row
        for part in (*planned.ranges, *later.ranges)
        for batch in source.read(part.what)
        for row in batch.to_pylist()
    ]
    assert [row["k"] for row in rows] == [1, 2]
