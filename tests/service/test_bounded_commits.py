"""What a batch commits does not grow with what is not needed any more."""

import json

import numpy as np
from tests.sql.world import NAMES, rows_of

from headgate.service.batch import processor
from headgate.service.batch.processor import _needed


def test_a_start_names_only_the_sources_of_the_queries_that_begin(local) -> None:
    rows = rows_of(np.random.default_rng(1), 60)
    local.add(*[f"SELECT x FROM {name}" for name in NAMES])
    local.feed(rows)
    local.feed(rows)
    local.add("SELECT n FROM beta")
    local.feed(rows)
    local.feed(rows)
    starts = dict(local.service._registry.read("SELECT batch, latest FROM starts"))
    assert sorted(starts) == [0, 2]
    assert [source for source, _ in json.loads(starts[2])] == [NAMES.index("beta")]


def test_a_restart_before_its_first_batch_does_not_change_what_a_query_sees(local) -> None:
    rows = rows_of(np.random.default_rng(1), 60)
    text = "SELECT count(*), window_end FROM alpha GROUP BY TUMBLE(time, INTERVAL '5 seconds')"
    (first,) = local.add(text)
    local.feed(rows.slice(0, 30))
    (second,) = local.add(text)
    local.restart()
    local.feed(rows.slice(30))
    assert local.answers(second)
    assert local.answers(second) < local.answers(first)


def test_how_far_sources_have_come_that_nobody_reads_is_forgotten(local, monkeypatch) -> None:
    monkeypatch.setattr(processor, "MOST_UNREAD", 1)
    numbers = local.add(*[f"SELECT x FROM {name}" for name in NAMES])
    rows = rows_of(np.random.default_rng(1), 60)
    local.feed(rows)
    assert len(local.service.batch_log.last.latest) == 3
    for number in numbers[1:]:
        local.service.remove(local.ann, number)
    local.feed(rows)
    latest = local.service.batch_log.last.latest
    assert len(latest) == 2
    assert 0 in latest
    snapshot = local.service.computations.snapshot(9)
    assert _needed({0: 5, 1: 3, 2: 4}, snapshot) == {0: 5, 2: 4}
