"""Who carries parcels: to a webhook at least once, to Kafka and to tables exactly once.

Kafka, Delta, Iceberg and Parquet are the sinks of `headgate.stage`. They remember the number of the last parcel of a
delivery in the same transaction as its rows, so a parcel that comes again is dropped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Protocol, cast

import pyarrow as pa

from headgate.errors import ConfigError
from headgate.service.delivery.orders import Delivery
from headgate.service.delivery.parcel import Parcel
from headgate.service.delivery.webhook import EVENT, SIGNATURE, Post, sign
from headgate.service.targets_config import WEBHOOK, Allowed, Target
from headgate.stage.sinks import Delta, Iceberg, Kafka, Output, Parquet, Sink
from headgate.storage.manifest import Written
from headgate.storage.output_file import write_parquet
from headgate.storage.parquet_folder import Owner
from headgate.storage.store import Store

TABLE_ROWS = 100_000
"""How many results one commit of a table or one transaction of Kafka carries at most."""
KAFKA_TIMEOUT = "20 seconds"


class Sender(Protocol):
    """Sends the parcels of one delivery."""

    rows: int
    """How many results a parcel may have."""

    def fits(self, parcel: Parcel) -> bool:
        """Whether a parcel is small enough; one with a single result always is."""

    def prepare(self, parcel: Parcel) -> None:
        """Before a parcel is pending: see that the target can take it."""

    def send(self, parcel: Parcel) -> None:
        """Send it; return when the target has it."""


class WebhookSender:
    """Sends parcels as signed JSON."""

    def __init__(self, allowed: Allowed, post: Callable[..., None]) -> None:
        self._policy, self._post = allowed.webhooks, post
        self.rows = self._policy.rows

    def fits(self, parcel: Parcel) -> bool:
        """Whether its body is within the bound."""
        return len(body_of(parcel)) <= self._policy.bytes

    def prepare(self, parcel: Parcel) -> None:
        """A webhook has nothing to prepare."""
        return None

    def send(self, parcel: Parcel) -> None:
        """One request. A parcel without results is not sent."""
        if not parcel.count:
            return
        body, now = body_of(parcel), time.time()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "headgate",
            EVENT: parcel.id,
            SIGNATURE: sign(parcel.delivery.secrets_at(now), body, int(now)),
        }
        self._post(parcel.delivery.options["url"], body, headers)


def body_of(parcel: Parcel) -> bytes:
    """The body of a request: equal for equal parcels."""
    told = {
        "id": parcel.id,
        "delivery": parcel.delivery.id,
        "query": parcel.delivery.query,
        "cursor": parcel.following,
        "results": parcel.results(),
    }
    return json.dumps(told, separators=(",", ":")).encode("utf-8", "backslashreplace")


class SinkSender:
    """Sends parcels to a sink, each as a batch with its number."""

    def __init__(
        self, delivery: Delivery, sink: Sink, store: Store, as_table: Callable[[Parcel], pa.Table]
    ) -> None:
        self.rows = TABLE_ROWS
        self._sink, self._as_table = sink, as_table
        self._store = sink.output_store(store)
        self._owner = Owner(f"delivery-{delivery.uid}", f"delivery/{delivery.uid}")
        self._owned = False

    def fits(self, parcel: Parcel) -> bool:
        """A table takes what there is."""
        return True

    def prepare(self, parcel: Parcel) -> None:
        """Check the columns, and compare the target with what was sent."""
        self._sink.check()
        if parcel.count:
            self._sink.check_columns(self._as_table(parcel).schema)
        if not self._owned:
            last = parcel.number if parcel.again else parcel.number - 1
            self._sink.own(self._owner, last if last >= 0 else None)
            self._owned = True

    def send(self, parcel: Parcel) -> None:
        """Publish it, unless the target has it."""
        folder = f"{parcel.number}-{self._owner.stage}"
        files, schema = tuple[Written, ...](), pa.schema([])
        if parcel.count:
            rows = self._as_table(parcel)
            schema = rows.schema
            self._store.make(folder)
            files = (
                write_parquet(self._store, f"{folder}/results-{parcel.number:012d}.parquet", rows, schema),
            )
        engine = cast(Any, None)  # no DataFrame is ever asked for
        output = Output(parcel.number, self._store, files, schema, engine, parcel.again, self._owner)
        self._sink.publish(output)
        if files and not self._store.in_place:
            self._store.remove(folder)


def sender_of(delivery: Delivery, allowed: Allowed, store: Store, post: Post) -> Sender:
    """The sender of a delivery. `store` is a folder in which the sinks may keep files."""
    if delivery.target == WEBHOOK:
        return WebhookSender(allowed, post)
    target = allowed.targets.get(delivery.target)
    if target is None:
        raise ConfigError(f"the target {delivery.target!r} is no longer in the configuration of the service")
    return _to_sink(delivery, target, store.child(delivery.uid))


def _to_sink(delivery: Delivery, target: Target, store: Store) -> Sender:
    settings, tenant = target.settings, delivery.tenant
    if target.kind == "kafka":
        topic = str(settings["topic"]).replace("{tenant}", tenant)
        kafka = Kafka(
            settings["servers"], topic, key="key", value="value", headers={EVENT.lower(): "id"},
            timeout=KAFKA_TIMEOUT, options=settings.get("options"),
        )  # fmt: skip
        return SinkSender(delivery, kafka, store, _records)
    table = delivery.options["table"]
    if target.kind == "iceberg":
        return SinkSender(
            delivery, Iceberg(f"{tenant}.{table}", catalog=settings["catalog"]), store, Parcel.table
        )
    path = f"{str(settings['path']).rstrip('/')}/{tenant}/{table}"
    if target.kind == "parquet":
        return SinkSender(delivery, Parquet(path, batch_column="parcel"), store, Parcel.table)
    return SinkSender(
        delivery, Delta(path, storage_options=settings.get("storage_options")), store, Parcel.table
    )


def _records(parcel: Parcel) -> pa.Table:
    """Each result as a record: the key is that of the delivery's options, or the query; the value is JSON."""
    results = parcel.results()
    column = parcel.delivery.options.get("key")
    keys = [str(parcel.delivery.query) if column is None else _key(one["values"][column]) for one in results]
    values = [json.dumps(one, separators=(",", ":")).encode("utf-8", "backslashreplace") for one in results]
    ids = [f"{parcel.id}-{i}" for i in range(len(results))]
    return pa.table(
        {
            "key": pa.array(keys, pa.string()),
            "value": pa.array(values, pa.binary()),
            "id": pa.array(ids, pa.string()),
        }
    )


def _key(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
