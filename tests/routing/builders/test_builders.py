"""What every builder must do: counted penalties are the real ones, the edges of the input, speeds and base load."""

import numpy as np
import pytest
from tests.routing.builders.problems import problem, stage, zipf

from headgate.routing.builders import (
    ALGORITHMS,
    Bins,
    Objective,
    Problem,
    builder,
    place,
    readj,
    rebuild,
    redist,
    scan,
)
from headgate.routing.key_hash import hash_ints
from headgate.routing.partitioning import PartitioningFunction
from headgate.routing.ring import HashRing


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("seed", range(5))
def test_counted_migration_and_penalties_are_the_real_ones(algorithm: str, seed: int) -> None:
    p = problem(seed, items=60, channels=7)
    got = ALGORITHMS[algorithm](p)
    assert got.moved_state == pytest.approx(p.moved(got.channel), abs=1e-12)
    assert got.gamma == pytest.approx(p.gamma(got.channel), abs=1e-9)
    assert got.rho == pytest.approx(p.rho(got.channel), abs=1e-12)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
class TestEdges:
    def test_no_items(self, algorithm: str) -> None:
        got = ALGORITHMS[algorithm](Problem(np.empty(0), np.empty(0, dtype=np.int64), 4))
        assert got.channel.size == 0
        assert (got.rho, got.gamma) == (0.0, 0.0)

    def test_one_channel_takes_everything(self, algorithm: str) -> None:
        got = ALGORITHMS[algorithm](Problem(zipf(5), np.array([0, 0, -1, -1, 0]), 1))
        assert got.channel.tolist() == [0] * 5
        assert got.moved_state == pytest.approx(zipf(5)[2:4].sum())

    def test_one_key_stays_where_it_is(self, algorithm: str) -> None:
        assert ALGORITHMS[algorithm](Problem(np.array([1.0]), np.array([2]), 4)).channel.tolist() == [2]

    def test_equal_keys_are_dealt_out_evenly(self, algorithm: str) -> None:
        equal = Problem(np.full(12, 1 / 12), np.zeros(12, dtype=np.int64), 4)
        got = ALGORITHMS[algorithm](equal)
        if algorithm.startswith("readj"):  # it stops where two channels tie at the top and two at the bottom
            assert got.rho < equal.rho(equal.old)
        else:
            assert np.bincount(got.channel, minlength=4).tolist() == [3, 3, 3, 3]

    def test_more_channels_than_keys_gives_each_its_own(self, algorithm: str) -> None:
        got = ALGORITHMS[algorithm](Problem(np.array([0.5, 0.3, 0.2]), np.array([0, 1, 2]), 8))
        assert len(set(got.channel.tolist())) == 3

    def test_removed_channels_are_left(self, algorithm: str) -> None:
        now = PartitioningFunction.pinning(HashRing.uniform(4), {k: k % 4 for k in range(8)})
        after = rebuild(
            now, hash_ints(np.arange(8)), zipf(8), channels=(0, 1, 2), algorithm=algorithm
        ).function
        assert set(after.pins.values()) <= {0, 1, 2}
        assert after.channels == (0, 1, 2)


def test_speeds_divide_the_load() -> None:
    p = Problem(np.full(300, 1 / 300), np.zeros(300, dtype=np.int64), 3, speeds=np.array([1.0, 1.0, 2.0]))
    for build in (scan, redist, readj):
        share = np.bincount(build(p).channel, minlength=3) / 300
        assert share == pytest.approx([0.25, 0.25, 0.5], abs=0.03)


def test_base_load_is_seen() -> None:
    base = np.tile([0.5, 0.1, 0.1], (3, 1))
    p = Problem(np.full(20, 0.015), np.zeros(20, dtype=np.int64), 3, base=base)
    for build in (scan, redist, readj):
        assert (build(p).channel == 0).sum() <= 1


@pytest.mark.parametrize(
    "act, words",
    [
        (lambda: builder("best"), "algorithm is one of"),
        (lambda: Objective(alpha=1.0), "above 1"),
        (lambda: Objective(sigma=2), "sigma"),
        (lambda: Objective(utility="best"), "utility is one of"),
        (lambda: Problem(np.array([0.0]), np.array([0]), 2), "positive"),
        (lambda: Problem(np.array([0.1]), np.array([2]), 2), "old needs"),
        (lambda: Problem(np.array([0.1]), np.array([0]), 2, start=np.array([2])), "start"),
        (lambda: Problem(np.array([0.1]), np.array([0]), 0), "channels"),
        (lambda: Problem(np.array([0.1]), np.array([0]), 2, loads=np.ones((2, 1))), "do not fit"),
        (lambda: Problem(np.array([0.1]), np.array([0]), 2, speeds=np.array([1.0, 0.0])), "speeds"),
        (lambda: place(*stage(1.0), 8, tail="wag"), "tail is"),  # type: ignore[arg-type]
        (lambda: place(*stage(1.0), 8, speeds=np.ones(3)), "speeds"),
        (
            lambda: place(stage(1.0)[0], Bins(np.empty(0), np.empty(0, np.int64)), 8),
            "must have one entry for each bin",
        ),
    ],
)
def test_bad_input_is_named(act, words) -> None:
    with pytest.raises(ValueError, match=words):
        act()
