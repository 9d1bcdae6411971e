"""The size of a wave that is found by itself."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.flow.wave_size import WaveSize


@given(
    fixed=st.floats(0.01, 2.0),
    per_row=st.floats(1e-7, 1e-3),
    least=st.integers(1, 10_000),
)
def test_the_size_settles_where_the_fixed_cost_is_a_twentieth(
    fixed: float, per_row: float, least: int
) -> None:
    size = WaveSize(least=least, most=10_000_000)
    for _ in range(20):
        size = size.after(size.batch, fixed + per_row * size.batch)
    wanted = min(max(fixed / (0.05 * per_row), least), 10_000_000)
    assert abs(size.batch - wanted) <= 0.01 * wanted + 1


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 100)), max_size=30))
def test_whatever_is_measured_the_size_stays_within_its_limits(seen: list[tuple[int, float]]) -> None:
    size = WaveSize(least=100, most=5000)
    for rows, seconds in seen:
        size = size.after(rows, seconds)
        assert 100 <= size.batch <= 5000
