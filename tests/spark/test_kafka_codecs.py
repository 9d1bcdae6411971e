"""Avro and Protobuf on Spark: a query over a topic with a schema registry, whose writers change."""

import io
import json
import random
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from tests.kafka_mock import MockCluster
from tests.schema_registry import SchemaRegistry, framed

import headgate as hg
from headgate import agg
from headgate.errors import SourceFailed


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    made = MockCluster()
    yield made
    made.close()


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    made = SchemaRegistry()
    yield made
    made.close()


MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
TAGS = {"type": "array", "items": "string"}
FIRST = {
    "type": "record", "name": "Sale",
    "fields": [{"name": "shop", "type": "string"}, {"name": "pieces", "type": "int"}, {"name": "price", "type": MONEY}],
}  # fmt: skip
SECOND = {
    "type": "record", "name": "Sale",
    "fields": [
        {"name": "price", "type": ["null", MONEY]}, {"name": "pieces", "type": "long"},
        {"name": "tags", "type": TAGS, "default": []}, {"name": "shop", "type": ["null", "string"]},
    ],
}  # fmt: skip


def encoded(schema: Any, row: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(dict(schema)), row)
    return out.getvalue()


def test_the_examples_of_the_page_run(
    spark: Any,
    cluster: MockCluster,
    registry: SchemaRegistry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sale.avsc").write_text(json.dumps(FIRST))
    order = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop")
    order.message_type.add(name="Order").field.add(name="number", number=1, type=3, label=1)
    Path("shop.desc").write_bytes(descriptor_pb2.FileDescriptorSet(file=[order]).SerializeToString())
    cluster.create("sales")
    number = registry.register("sales-value", FIRST)
    row = {"shop": "a", "pieces": 1, "price": Decimal("1.25")}
    cluster.produce("sales", [framed(number, encoded(FIRST, row))] * 3)
    names: dict[str, Any] = {"hg": hg, "agg": agg, "spark": spark, "servers": cluster.servers}
    page = (Path(__file__).parents[2] / "docs" / "reference" / "kafka.md").read_text()
    blocks = re.findall(
        r"```python\n(.*?)```", page.partition("## Avro and Protobuf")[2].partition("\n## ")[0], re.S
    )
    for block in blocks:
        exec(block.replace("http://localhost:8081", registry.url), names)
    (written,) = pq.read_table("out/sales").drop_columns(["batch"]).to_pylist()
    assert written == {"shop": "a", "n": 3, "earned": Decimal("3.75")}
    assert names["plain"].source.schema().names == ["shop", "pieces", "price"]
    assert names["orders"].source.schema().names == ["number"]
    assert len(blocks) == 3


def test_a_query_over_avro_with_a_registry(
    spark: Any, cluster: MockCluster, registry: SchemaRegistry, tmp_path: Path
) -> None:
    cluster.create("evolving", 2)
    old, new = (registry.register("evolving-value", schema) for schema in (FIRST, SECOND))
    chance = random.Random(7)
    wanted: dict[Any, list[Any]] = {}
    for partition in range(2):
        values = []
        for at in range(400):
            shop, pieces = f"shop {chance.randrange(9)}", chance.randrange(100)
            row: dict[str, Any] = {
                "shop": shop,
                "pieces": pieces,
                "price": Decimal(chance.randrange(10**6)) / 100,
            }
            if at >= 200 * (partition + 1) or chance.random() < 0.2:
                row |= {
                    "tags": ["x"] * chance.randrange(3),
                    "price": row["price"] if chance.random() < 0.9 else None,
                }
                values.append(framed(new, encoded(SECOND, row)))
            else:
                values.append(framed(old, encoded(FIRST, row)))
            found = wanted.setdefault(shop, [0, 0, Decimal(0)])
            wanted[shop] = [found[0] + 1, found[1] + pieces, found[2] + (row["price"] or 0)]
        cluster.produce("evolving", values, partition)
    query = (
        hg.read(spark)
        .kafka(cluster.servers, "evolving", value="avro", registry=registry.url)
        .key_by("shop")
        .aggregate(n=agg.count(), pieces=agg.sum("pieces"), earned=agg.sum("price"))
        .write(hg.sinks.Parquet(str(tmp_path / "out")))
        .start(str(tmp_path / "ckpt"), available_now=True, durable=False)
    )
    query.await_end()
    written = pq.read_table(tmp_path / "out").to_pylist()
    assert {row["shop"]: [row["n"], row["pieces"], row["earned"]] for row in written} == wanted


def test_protobuf_and_a_message_that_does_not_parse(spark: Any, cluster: MockCluster, tmp_path: Path) -> None:
    cluster.create("stamps")
    values = [timestamp_pb2.Timestamp(seconds=n % 3, nanos=n).SerializeToString() for n in range(30)]
    cluster.produce("stamps", values)
    stream = (
        hg.read(spark)
        .kafka(cluster.servers, "stamps", value="protobuf", message=timestamp_pb2.Timestamp)
        .key_by("seconds")
        .aggregate(nanos=agg.sum("nanos"))
    )
    sink = hg.sinks.Memory()
    stream.write(sink).start(str(tmp_path / "ckpt"), available_now=True, durable=False).await_end()
    assert {k: row["nanos"] for (k,), row in sink.latest("seconds").items()} == {0: 135, 1: 145, 2: 155}
    cluster.produce("stamps", [b"\xff"])
    query = stream.write(sink).start(str(tmp_path / "ckpt"), available_now=True, durable=False)
    with pytest.raises(
        SourceFailed, match=r"offset 30 of partition 0 of stamps is not a message of type google.protobuf"
    ):
        query.await_end()
