"""One memory for several stages: it is never given away twice, and a stage that needs it gets its part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import ConfigError
from headgate.flow.shared_memory import SharedMemory, divided


@given(st.integers(1, 10**12), st.lists(st.integers(0, 10**12), min_size=1, max_size=6))
def test_the_parts_add_up_to_the_budget_and_nobody_who_needs_it_gets_less_than_a_fair_part(
    budget, held
) -> None:
    parts = divided(budget, held)
    if budget >= len(held):
        assert sum(parts) <= budget + len(held)  # everybody has at least a byte
        assert all(part >= min(need, budget // len(held)) for part, need in zip(parts, held, strict=True))
    if sum(held) <= budget:
        assert all(part >= need for part, need in zip(parts, held, strict=True))
    assert min(parts) >= 1


def test_stages_see_what_the_others_hold_channel_by_channel() -> None:
    class Member:
        """Stands for a stage."""

    first, second = Member(), Member()
    shared = SharedMemory(1000)
    assert shared.limits(first, {0: 0, 1: 0}) == {0: 1000, 1: 1000}
    assert shared.limits(second, {0: 900, 1: 100}) == {0: 950, 1: 550}
    assert shared.limits(first, {0: 300, 1: 300}) == {0: 300, 1: 600}
    assert shared.limits(second, {0: 900, 1: 100}) == {0: 700, 1: 400}
    del second
    assert shared.limits(first, {0: 300}) == {0: 1000}


@pytest.mark.parametrize("wrong", [0, "none"])
def test_misuse_is_named(wrong) -> None:
    with pytest.raises(ConfigError, match="memory"):
        SharedMemory(wrong)
