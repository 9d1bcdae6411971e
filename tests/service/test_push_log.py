"""Pushed events are durable before they are acknowledged."""


def test_pushed_events_are_files_before_they_are_acknowledged(local) -> None:
    import pyarrow.parquet as pq

    events = [{"time": "2026-01-01T00:00:00Z", "x": 1, "city": "ash"}, {"time": 1.5, "n": 3}]
    assert local.service.push_events(local.ann, "beta", events) == 2
    (name,) = local.service.push_log.store.names("")
    rows = pq.read_table(local.service.push_log.store.path(name)).to_pylist()
    assert [(r["source"], r["d0"], r["v0"], r["l0"]) for r in rows] == [
        (1, 1.0, "ash", None),
        (1, None, None, 3),
    ]
