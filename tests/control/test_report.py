"""The batch report: JSON there and back, compact, and the two imbalances."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control import BatchReport, BinReport, ChannelReport, HotKey
from headgate.errors import ConfigError
from headgate.routing.table import Table
from headgate.testing import builders
from headgate.testing.strategies import reports, tables


@given(tables().flatmap(reports))
def test_json_round_trip(report) -> None:
    text = json.dumps(report.to_json())
    assert BatchReport.from_json(json.loads(text)) == report
    assert json.dumps(BatchReport.from_json(json.loads(text)).to_json()) == text


def test_numpy_numbers_become_json() -> None:
    numbers: Any = (np.int32(0), np.int64(1), np.int64(3), np.int32(4))
    zero, one, three, four = numbers
    channel = ChannelReport(zero, three, busy_ms=np.float64(1.5))
    report = BatchReport(one, 0, three, 2, (channel,), (BinReport(four, three),))
    assert BatchReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_a_bin_costs_few_bytes() -> None:
    table = Table.uniform(512, 8)
    report = builders.report(3, table, [100] * 512)
    assert len(json.dumps(report.to_json(), separators=(",", ":"))) < 512 * 24


def test_imbalance_is_the_busiest_over_the_mean() -> None:
    table = Table.uniform(2, 2)
    report = builders.report(0, table, [10, 30], ms_per_row=[3.0, 1.0])
    assert report.row_imbalance == 1.5
    assert report.imbalance == 1.0
    assert report.wall_ms == 30


def test_no_work_is_even() -> None:
    assert builders.report(0, Table.uniform(2, 2), [0, 0]).imbalance == 1.0
    assert BatchReport(0, 0, 0, 0.0, (), ()).row_imbalance == 1.0


@given(st.lists(st.lists(st.integers(1, 50), max_size=6), min_size=1, max_size=9), st.integers(0, 4))
def test_no_placement_of_whole_keys_is_below_the_bound(keys, tracked) -> None:
    """`keys` has the rows of each key of each channel. Only the hottest are known by name."""
    channels = tuple(ChannelReport(number, sum(one), busy_ms=0.0) for number, one in enumerate(keys))
    hottest = sorted((rows for one in keys for rows in one), reverse=True)[:tracked]
    hot = tuple(HotKey(number, number, str(number), rows) for number, rows in enumerate(hottest))
    report = BatchReport(0, 0, sum(map(sum, keys)), 1.0, channels, (), hot)
    assert 1.0 <= report.row_bound <= report.row_imbalance + 1e-9


def test_rows_are_whole() -> None:
    channels = tuple(ChannelReport(number, int(number < 3), busy_ms=0.0) for number in range(8))
    assert BatchReport(0, 0, 3, 1.0, channels, ()).row_bound == pytest.approx(8 / 3)


def test_a_bin_reported_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="batch 7 reports a bin twice"):
        BatchReport(7, 0, 0, 0.0, (), (BinReport(1, 0), BinReport(1, 0)))


def test_columns_about_memory_are_left_out_where_nothing_is_spilled() -> None:
    table = Table.uniform(2, 2)
    plain = builders.report(0, table, [1, 1], bytes_per_bin=0).to_json()
    assert "memory_limit" not in plain["channels"]
    assert "on_disk" not in plain["bins"]
    assert {"busy_ms", "delta_bytes"} <= set(plain["channels"])
    spilled = builders.report(0, table, [1, 1], memory=[50, 500], on_disk={0})
    assert spilled.to_json()["bins"]["on_disk"] == [True, False]
    assert spilled.to_json()["channels"]["memory_limit"] == [50, 500]
    assert BatchReport.from_json(json.loads(json.dumps(spilled.to_json()))) == spilled


def test_a_report_written_before_there_was_memory_reads_as_unbounded() -> None:
    report = builders.report(0, Table.uniform(2, 2), [1, 1], memory=[50, 500], on_disk={0})
    data = report.to_json()
    for name in ("memory_limit", "resident_bytes", "disk_bytes"):
        del data["channels"][name]
    del data["bins"]["on_disk"]
    old = BatchReport.from_json(data)
    assert [one.memory_limit for one in old.channels] == [0, 0]
    assert not any(one.on_disk for one in old.bins)


def test_a_column_without_a_default_is_missed() -> None:
    data = builders.report(0, Table.uniform(2, 2), [1, 1]).to_json()
    del data["bins"]["rows"]
    with pytest.raises(KeyError, match="rows"):
        BatchReport.from_json(data)
