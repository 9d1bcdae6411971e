"""Two stages on the same machines: the arithmetic of both ways to run, and that nobody beats the least time."""

import numpy as np
import pytest

from headgate.policies import Mpc, Static
from headgate_lab import bench
from headgate_lab.bench.pipeline import CASES, drive, least, pipeline


@pytest.mark.parametrize("overlap", [False, True])
def test_an_even_pipeline_takes_its_work_over_the_machines(overlap) -> None:
    world = pipeline("even", 0, batches=3)
    assert drive(world, Static(), joint=False, overlap=overlap) == pytest.approx(3 * 0.2)
    assert least(world, overlap=overlap) == pytest.approx(3 * 0.2)


@pytest.mark.parametrize("case", CASES)
def test_nobody_beats_the_least_time(case) -> None:
    world = pipeline(case, 1, batches=12)
    for overlap in (False, True):
        for joint in (False, True):
            assert drive(world, Mpc(), joint=joint, overlap=overlap) >= 0.999 * least(world, overlap=overlap)


def test_a_hot_key_is_heavier_than_a_fair_part_and_rows_are_kept() -> None:
    first, second = pipeline("hot key in one stage", 2).rows
    assert first.sum() == pytest.approx(second.sum())
    assert first.max() > 1.9 * first.sum() / 8
    assert np.ptp(second) == 0


def test_the_report_has_both_policies_every_case_and_both_ways() -> None:
    report = bench.run("pipeline", quick=True)
    compared = [one for one in report.results if one.rival]
    assert len(compared) == 2 * len(CASES) * 2
