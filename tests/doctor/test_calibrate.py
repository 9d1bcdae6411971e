"""What a batch of the calibration touches, counted by a plain loop; `tests/spark/test_doctor.py` measures."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.doctor import calibrate
from headgate.doctor.operators import KINDS

ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 90_000_000)), min_size=1, max_size=60)


def windows(rows) -> int:
    return len({(user, time // (calibrate.WINDOW_S * 1_000_000)) for user, time in rows})


def sessions(rows) -> int:
    last: dict[int, int] = {}
    found = 0
    for user, time in sorted(rows):
        if user not in last or time - last[user] > calibrate.GAP_S * 1_000_000:
            found += 1
        last[user] = time
    return found


@given(ROWS)
def test_touched_rows_of_state_are_counted(rows) -> None:
    users, times = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    distinct = len({user for user, _ in rows})
    wanted = {"aggregate": distinct, "kernel": distinct, "windows": windows(rows), "sessions": sessions(rows)}
    assert {kind: calibrate._touched(kind, users, times) for kind in wanted} == wanted
    assert calibrate._touched("dedup", users, times) is None
    assert calibrate._touched("join", users, times) is None


def test_every_kind_has_a_stream_and_the_shapes_tell_the_constants_apart() -> None:
    assert set(calibrate.STREAMS) == set(KINDS)
    for shapes in (calibrate.SHAPES, calibrate.QUICK):
        even = [shape for shape in shapes if not shape.hot]
        design = np.array([[1.0, shape.rows, min(shape.rows, shape.keys)] for shape in even])
        assert np.linalg.matrix_rank(design) == 3
        assert any(shape.hot for shape in shapes)


def test_an_input_has_its_hot_key(tmp_path) -> None:
    made = calibrate._Input(tmp_path / "in", calibrate.Shape(1_000, 100, 0.5), 2, seed=1)
    users, times = made.batches[1]
    assert np.mean(users == 7) == pytest.approx(0.5, abs=0.1)
    assert np.all(np.diff(times) >= 0)
    assert sorted(file.name for file in (tmp_path / "in" / "right").iterdir()) == [
        f"batch-0000{number}-{part}.parquet" for number in range(2) for part in range(2)
    ]
