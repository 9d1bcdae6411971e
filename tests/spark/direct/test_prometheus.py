"""A real Prometheus scrapes a query that runs, evaluates the rules, and fires when the query fails."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.prometheus import needs_prometheus, prometheus
from tests.spark.direct.events import SCHEMA, STATIC, events, put

import headgate as hg
from headgate import agg
from headgate.observe.rules import ALERTS


@needs_prometheus
@pytest.mark.full
def test_prometheus_scrapes_a_query_and_fires_when_it_fails(
    spark: SparkSession, files: Path, tmp_path: Path
) -> None:
    broken = list[bool]()

    def publish(df: Any, batch: int) -> None:
        if broken:
            raise ValueError("the database is down")

    source = hg.read(spark).files(str(files), schema=SCHEMA)
    stream = source.key_by("user", routing=STATIC).aggregate(n=agg.count()).write(publish)
    port = hg.observe.Port(0, host="127.0.0.1")
    query = stream.start(str(tmp_path / "ckpt"), name="users", durable=False, listeners=[port])
    with prometheus(tmp_path / "prometheus", port.port) as server:
        query.process_all_available()
        server.until(lambda p: p.value('headgate_rows_total{query="users",stage="0"}'), 4000.0)
        server.until(lambda p: p.value('headgate_query_up{query="users"}'), 1.0)
        server.until(
            lambda p: {
                (rule["name"], rule["health"])
                for group in p.get("rules")["groups"]
                for rule in group["rules"]
            },
            {(alert.name, "ok") for alert in ALERTS},
        )
        assert server.value('count(ALERTS{alertstate="firing"})') is None
        broken.append(True)
        put(files, 9, events(100, 9))
        with pytest.raises(hg.errors.HeadgateError):
            query.process_all_available()
        firing = 'ALERTS{alertname="%s",alertstate="firing",query="users"}'
        server.until(lambda p: p.value(firing % "HeadgateQueryFailed"), 1.0)
        server.until(lambda p: p.value(firing % "HeadgateStoreFailed"), 1.0)
    port.close()
