"""Avro with a schema registry: records of several writers, what is no fault of a record, and passwords."""

import json
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.schema_registry import SchemaRegistry, framed
from tests.sources.kafka.avro_world import encoded

from headgate.errors import ConfigError, SourceFailed
from headgate.sources import Kafka
from headgate.sources.kafka.registry import Registry

FIRST = {
    "type": "record",
    "name": "Sale",
    "fields": [{"name": "n", "type": "int"}, {"name": "old", "type": "string"}],
}
SECOND = {
    "type": "record", "name": "Sale",
    "fields": [{"name": "n", "type": "long"}, {"name": "shop", "type": ["null", "string"], "default": None}],
}  # fmt: skip


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[SchemaRegistry]:
    """A registry that no schema was asked of yet, even if another test had one at its address."""
    monkeypatch.setattr("headgate.sources.kafka.registry._schemas", {})
    monkeypatch.setattr("headgate.sources.kafka.avro._programs", {})
    made = SchemaRegistry()
    yield made
    made.close()


@pytest.fixture
def sales(registry: SchemaRegistry, topic: str, cluster: Any) -> tuple[int, int]:
    """The ids of two schemas of a topic."""
    cluster.create(topic)
    return registry.register(f"{topic}-value", FIRST), registry.register(f"{topic}-value", SECOND)


def first(number: int, n: int) -> bytes:
    return framed(number, encoded(FIRST, {"n": n, "old": "x"}))


def second(number: int, n: int, shop: str | None) -> bytes:
    return framed(number, encoded(SECOND, {"n": n, "shop": shop}))


def test_records_of_several_writers_have_the_columns_of_the_newest(
    registry, sales, cluster, topic, driver
) -> None:
    one, two = sales
    cluster.produce(topic, [first(one, 1), second(two, 2, "a"), None, first(one, 3), second(two, 4, None)])
    reading = driver(schema=None, value="avro", registry=registry.url)
    assert reading.source.schema() == pa.schema([("n", pa.int64()), ("shop", pa.string())])
    assert reading.batch() == [
        {"n": 1, "shop": None}, {"n": 2, "shop": "a"}, {"n": None, "shop": None}, {"n": 3, "shop": None},
        {"n": 4, "shop": None},
    ]  # fmt: skip
    asked = [path for path in registry.asked if path.startswith("/schemas/")]
    cluster.produce(topic, [first(one, 5)])
    assert reading.batch() == [{"n": 5, "shop": None}]
    assert asked == [f"/schemas/ids/{one}", f"/schemas/ids/{two}"]
    assert [path for path in registry.asked if path.startswith("/schemas/")] == asked


def test_the_reader_may_have_a_schema_or_a_version_of_its_own(
    registry, sales, cluster, topic, driver
) -> None:
    cluster.produce(topic, [second(sales[1], 2, "a")])
    own = {"type": "record", "name": "Mine", "fields": [{"name": "shop", "type": ["null", "string"]}]}
    assert driver(schema=own, value="avro", registry=registry.url).batch() == [{"shop": "a"}]
    assert Kafka("x:1", topic, 1, value="avro", registry=registry.url).schema().names == ["n", "old"]
    with pytest.raises(ConfigError, match=f"no subject '{topic}-value' with version 7"):
        Kafka("x:1", topic, 7, value="avro", registry=registry.url)


BAD = [
    (b"\x01\0\0\0\x01\x02", "begins with byte 1 and not with 0"),
    (b"\0\0", "has 2 bytes, which is too short"),
    (b"", "has 0 bytes"),
    (framed(99, b"\x02"), "has schema 99, which http"),
]


def test_records_that_do_not_parse_go_aside_with_the_reason(
    registry, sales, cluster, topic, driver, tmp_path
) -> None:
    one, two = sales
    other = registry.register("other", '{"type": "object"}', "JSON")
    broken = registry.register("broken", '{"type": "recrd"}')
    bad = [
        *BAD,
        (framed(one, encoded(FIRST, {"n": 1, "old": "x"})[:-1]), "ends within a field"),
        (second(two, 1, "a") + b"!", "has bytes after its last field"),
        (framed(other, b"\x02"), f"has schema {other}, which is not one of AVRO but of JSON"),
        (framed(broken, b"\x02"), f"has schema {broken}, which is not an Avro schema"),
    ]
    for at, (value, _) in enumerate(bad):
        cluster.produce(topic, [second(two, at, None), value])
    reading = driver(schema=None, value="avro", registry=registry.url, bad=str(tmp_path / "bad"))
    assert [row["n"] for row in reading.batch()] == list(range(len(bad)))
    reading.plan()
    found = pq.read_table(tmp_path / "bad").sort_by("offset").to_pylist()
    assert [row["value"] for row in found] == [value for value, _ in bad]
    for row, (_, said) in zip(found, bad, strict=True):
        assert row["reason"].startswith(said)


def test_a_record_that_does_not_parse_stops_the_query(registry, sales, cluster, topic, driver) -> None:
    cluster.produce(topic, [second(sales[1], 1, None), framed(99, b"\x02")])
    with pytest.raises(SourceFailed, match=rf"offset 1 of partition 0 of {topic} has schema 99, which http"):
        driver(schema=None, value="avro", registry=registry.url).batch()


def test_a_registry_that_is_away_is_no_fault_of_a_record(
    registry, sales, cluster, topic, driver, tmp_path
) -> None:
    cluster.produce(topic, [second(sales[1], 1, None)])
    options = {"value": "avro", "registry": registry.url, "bad": str(tmp_path / "bad")}
    plan = driver(schema=None, timeout="2 s", **options).plan()
    registry.close()
    try:
        with pytest.raises(
            SourceFailed,
            match=r"registry http://127.0.0.1:\d+ did not answer within 2 s .*start the query again",
        ):
            driver(schema=SECOND, timeout="2 s", **options).read(plan)
        back = threading.Timer(0.3, registry.open)
        back.start()
        assert driver(schema=SECOND, timeout="20 s", **options).read(plan) == [{"n": 1, "shop": None}]
        back.join()
    except BaseException:
        registry.open()
        raise
    assert not (tmp_path / "bad").exists() or not list((tmp_path / "bad").iterdir())


def test_a_registry_that_refuses_is_no_fault_of_a_record(
    registry, sales, cluster, topic, driver, tmp_path
) -> None:
    cluster.produce(topic, [second(sales[1], 1, None)])
    reading = driver(schema=None, value="avro", registry=registry.url, bad=str(tmp_path / "bad"))
    registry.user = "ann:new"
    with pytest.raises(ConfigError, match="refuses this user"):
        reading.batch()


def test_a_registry_that_fails_for_a_while_is_asked_again(registry) -> None:
    number = registry.register("s", FIRST)
    registry.status = 503
    back = threading.Timer(0.2, setattr, (registry, "status", 0))
    back.start()
    assert json.loads(Registry.of(registry.url, None, 5.0).schema(number, "AVRO").text) == FIRST
    back.join()
    assert len(registry.asked) > 1


def test_an_address_that_is_no_registry_is_named_at_once(registry) -> None:
    with pytest.raises(ConfigError, match=r"answered .* with status 404 .*correct registry="):
        Registry.of(f"{registry.url}/elsewhere", None, 60.0).schema(1, "AVRO")
    with pytest.raises(ConfigError, match=r"has no subject 'x-value': write subject="):
        Kafka("x:1", "x", value="avro", registry=registry.url)
    registry.register("p-value", "", "PROTOBUF")
    with pytest.raises(ConfigError, match="has schemas of PROTOBUF, and not of AVRO"):
        Kafka("x:1", "p", value="avro", registry=registry.url)


def test_keys_are_a_column_of_any_type(registry, sales, cluster, topic, driver, tmp_path) -> None:
    value = second(sales[1], 1, None)
    text = registry.register(f"{topic}-key", '"string"')
    cluster.produce(topic, [value], key=framed(text, b"\x06ann"))
    cluster.produce(topic, [value])
    cluster.produce(topic, [value], key=framed(text, b"\x06an"))
    cluster.produce(topic, [b"oh"], key=framed(text, b"\x06bob"))
    cluster.produce(topic, [value], key=framed(text, b"\x06eve"))
    named = {"key": "avro", "meta": {"key": "who"}, "registry": registry.url, "bad": str(tmp_path / "bad")}
    reading = driver(schema=None, value="avro", **named)
    assert reading.source.schema().field("who").type == pa.string()
    assert [(row["n"], row["who"]) for row in reading.batch()] == [(1, "ann"), (1, None), (1, "eve")]
    reading.plan()
    found = pq.read_table(tmp_path / "bad").sort_by("offset")["reason"].to_pylist()
    assert found == [
        "has a key that ends within a field",
        "has 2 bytes, which is too short for the id of a schema",
    ]


def test_a_key_of_several_fields(cluster, topic, driver) -> None:
    cluster.create(topic)
    cluster.produce(topic, [b"v", None], key=encoded(FIRST, {"n": 1, "old": "x"}))
    reading = driver(schema=None, value="text", key="avro", key_schema=FIRST, meta=["key"])
    assert reading.batch() == [{"value": text, "key": {"n": 1, "old": "x"}} for text in ("v", None)]


def test_schemas_that_others_refer_to(registry, cluster, topic, driver) -> None:
    cluster.create(topic)
    money = {"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]}
    price = {"type": "record", "name": "shop.Price", "fields": [{"name": "net", "type": "shop.Money"}]}
    sale = {"type": "record", "name": "shop.Sale", "fields": [{"name": "price", "type": "shop.Price"}]}
    registry.register("money", money)
    registry.register("price", price, references=[{"name": "shop.Money", "subject": "money", "version": 1}])
    refers = [{"name": "shop.Price", "subject": "price", "version": 1}]
    number = registry.register(f"{topic}-value", sale, references=refers)
    cluster.produce(topic, [framed(number, b"\x0e")])
    assert driver(schema=None, value="avro", registry=registry.url).batch() == [
        {"price": {"net": {"cents": 7}}}
    ]


@pytest.fixture
def guarded() -> Iterator[SchemaRegistry]:
    made = SchemaRegistry(user="ann:s3cret/1")
    made.register("events-value", SECOND)
    yield made
    made.close()


def test_a_password_is_sent_and_never_shown(guarded, monkeypatch) -> None:
    def source(url: str = guarded.url, **options: Any) -> Kafka:
        return Kafka("x:1", "events", value="avro", registry=url, **options)

    with pytest.raises(ConfigError, match="refuses this user") as refused:
        source(registry_options={"basic.auth.user.info": "ann:wrong-one"})
    assert "wrong-one" not in str(refused.value)
    given = source(registry_options={"basic.auth.user.info": "ann:s3cret/1"})
    within = source(guarded.url.replace("//", "//ann:s3cret%2F1@"))
    monkeypatch.setenv("HEADGATE_REGISTRY_USER_INFO", "ann:s3cret/1")
    for one in (given, within, source()):
        assert one.schema().names == ["n", "shop"]
        shown = [
            repr(one),
            repr(one.__dict__),
            json.dumps(one.identity()),
            repr(pickle.loads(pickle.dumps(one)).__dict__),
        ]
        assert not [text for text in shown if "s3cret" in text]


def test_a_password_goes_to_no_other_address(guarded) -> None:
    other = SchemaRegistry()
    guarded.moved_to = other.url
    try:
        with pytest.raises(ConfigError, match=r"answered .* with status 302"):
            Registry.of(guarded.url, {"basic.auth.user.info": "ann:s3cret/1"}, 5.0).newest(
                "events-value", "AVRO"
            )
    finally:
        other.close()
    assert other.asked == []


def test_certificates_that_cannot_be_read_are_named() -> None:
    with pytest.raises(ConfigError, match="a certificate cannot be read"):
        Registry.of("https://localhost:1", {"ssl.ca.location": "nowhere.pem"}, 5.0).newest("s", "AVRO")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"registry": "localhost:8081"}, "write an address such as 'http://localhost:8081'"),
        ({"registry": "http://x", "registry_options": {"user": "ann"}}, "has 'user': it is a dict with some of basic.auth"),
        ({"registry_options": {"bearer.auth.token": "t"}, "schema": FIRST}, "needs the address of a registry"),
        ({"registry": "http://x", "value": "json"}, "is for value='avro' and value='protobuf'"),
        ({"message": "x.Y", "value": "json"}, "is for value='protobuf'"),
        ({"registry": "http://x", "topics": ["a", "b"]}, "reads several topics: name the subject"),
        ({"key": "avro", "schema": FIRST}, r"Kafka\(key='avro'\) needs key_schema="),
        ({"key_schema": '"string"', "schema": FIRST}, "is for key='avro', and not for 'raw'"),
        ({"key": "avro", "key_schema": '["int", "string"]', "schema": FIRST}, "field key is the union"),
        ({"value": "protobuf", "schema": "n long"}, "takes message=..., and no schema"),
        ({"value": "protobuf"}, "needs message="),
        ({"value": "protobuf", "message": dict}, "is not a message type"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_named(options, said) -> None:
    with pytest.raises(ConfigError, match=said):
        Kafka("x:1", **{"topics": "t", "value": "avro", **options})
