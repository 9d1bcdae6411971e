"""The cost of a batch, and how its constants are found and kept."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.doctor import costs
from headgate.doctor.costs import Cost, Costs, Sample, fitted
from headgate.doctor.operators import KINDS
from headgate.errors import ConfigError

US = st.floats(0.01, 5)
SIZES = [
    (8_000, 6_000, 1.0),
    (120_000, 4_000, 1.0),
    (120_000, 100_000, 1.1),
    (320_000, 60_000, 1.0),
    (120_000, 20_000, 1.5),
]


@given(st.floats(10, 200), US, US, US, st.integers(1, 8))
def test_a_fit_finds_the_constants_that_made_the_samples(fixed, row, key, skew, cores) -> None:
    cost = Cost(fixed, row, key, skew)
    samples = [
        Sample(rows, keys, cost.batch_ms(rows, keys, cores, busiest), busiest)
        for rows, keys, busiest in SIZES
    ]
    found = fitted(samples, cores)
    for rows, keys, busiest in [*SIZES, (50_000, 20_000, 1.2)]:
        wanted = cost.batch_ms(rows, keys, cores, busiest)
        assert found.batch_ms(rows, keys, cores, busiest) == pytest.approx(wanted, rel=1e-3)


@given(st.lists(st.floats(1, 1e4), min_size=5, max_size=5))
def test_no_constant_is_negative(times) -> None:
    samples = [
        Sample(rows, keys, ms, busiest) for (rows, keys, busiest), ms in zip(SIZES, times, strict=True)
    ]
    cost = fitted(samples, 2)
    assert min(cost.fixed_ms, cost.row_us, cost.key_us, cost.skew_us) >= 0


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 64), st.floats(1, 8))
def test_skew_and_rows_only_add_time(rows, keys, cores, busiest) -> None:
    cost = Cost(50.0, 0.5, 0.3, 0.4)
    least = cost.batch_ms(rows, keys, cores)
    assert cost.fixed_ms <= least <= cost.batch_ms(rows, keys, cores, busiest)
    assert least <= cost.batch_ms(rows + 1, keys, cores)


def test_the_constants_that_come_with_headgate_know_every_kind(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shipped = costs.load()
    assert set(shipped.kinds) == set(KINDS)
    assert not shipped.here
    assert all(cost.fixed_ms > 0 for cost in shipped.kinds.values())


def test_constants_that_were_measured_here_are_taken_first(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    mine = Costs({"aggregate": Cost(1.0, 2.0, 3.0, 4.0)}, "here", here=True)
    assert costs.save(mine) == costs.here_path()
    assert costs.load() == mine
    assert costs.save(mine, tmp_path / "other.json") == tmp_path / "other.json"
    assert costs.load(tmp_path / "other.json") == mine


@pytest.mark.parametrize("text", ["", "{}", json.dumps({"format": 9}), "[]"])
def test_a_file_without_constants_is_refused(text, tmp_path) -> None:
    (tmp_path / "costs.json").write_text(text)
    with pytest.raises(ConfigError, match="--calibrate"):
        costs.load(tmp_path / "costs.json")


def test_a_missing_file_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        costs.load(tmp_path / "none.json")
