"""The live page of a direct query, from its own process and from outside, and the query in a notebook."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import headgate as hg
from headgate import agg
from headgate.watch import server
from headgate.watch.reader import CheckpointReader
from headgate.watch.server import LiveView, Page


def shown(page: Page) -> Any:
    with urllib.request.urlopen(f"{page.url}data", timeout=30) as answer:
        return json.load(answer)


def test_the_page_of_a_query_with_two_stages(spark: SparkSession, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(server, "NEAR", 0.0)
    source, sink = hg.sources.Rows(schema=pa.schema([("k", pa.int64())])), hg.sinks.Memory()
    routing = hg.Routing(policy="flux-load", channels=3, bins=16)
    results = (
        hg.read(spark)
        .source(source)
        .key_by("k", routing=routing)
        .aggregate(n=agg.count())
        .key_by("n", routing=hg.Routing(channels=2, bins=8))
        .aggregate(keys=agg.count())
    )
    draw = np.random.default_rng(3)
    with results.write(sink).start(str(tmp_path / "c"), durable=False) as query:
        assert "no batch yet" in query._repr_mimebundle_()["text/html"]
        page = query.page()
        assert query.page() is page
        assert shown(page)["stages"][0]["batch"] is None
        for _ in range(3):
            source.add(pa.table({"k": draw.zipf(1.5, 2000) % 50}))
            query.process_all_available()
        data = shown(page)
        assert (data["name"], data["state"]) == (query.name, "running")
        assert [stage["batch"] for stage in data["stages"]] == [2, 2]
        assert [len(stage["load"]["bars"]) for stage in data["stages"]] == [3, 2]
        assert data["stages"][0]["rows"] == query.journal()[0][-1].report.rows
        first = data["stages"][0]["timeline"][-1]["steps"]
        assert list(first) == ["plan", "rest", "state", "work", "commit", "publish"]
        assert min(first["plan"], first["work"], first["commit"], first["publish"]) > 0
        assert "commit" in data["stages"][1]["timeline"][-1]["steps"]
        bundle = query._repr_mimebundle_()
        assert f'src="{page.url}?small"' in bundle["text/html"]
        assert bundle["text/plain"] == repr(query)
        with Page(LiveView(CheckpointReader(str(tmp_path / "c")))) as outside:
            seen = shown(outside)
        assert [one["load"] for one in seen["stages"]] == [one["load"] for one in data["stages"]]
        assert "plan" not in seen["stages"][0]["timeline"][-1]["steps"]
    assert shown(page)["state"] == "stopped"
    watchers = [len(stage.watchers) for stage in query.stages]
    page.close()
    assert [len(stage.watchers) for stage in query.stages] == [count - 1 for count in watchers]
    assert "<svg" in query._repr_mimebundle_()["text/html"]
    assert "stopped, batch 2" in query.status()._repr_html_()
    assert "<pre>" in query.explain()._repr_html_()
