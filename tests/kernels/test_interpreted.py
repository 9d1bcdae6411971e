"""Interpreted kernels: what they may do beyond compiled ones, and the shape they are held to."""

import pytest
from tests.kernels.samples import helper

import headgate as hg
from headgate import errors


def test_interpreted_kernels_may_do_what_compiled_ones_may_not() -> None:
    seen = []

    @hg.kernel(state={"n": int}, output={"z": str}, compiled=False)
    def free(state, row):
        try:
            seen.append(helper(row.v))
            return f"{row.v} " + ",".join(str(i) for i in range(row.v))
        finally:
            state.n += 1

    assert hg.testing.run(free, [{"k": 1, "v": 2}]).rows == [{"k": 1, "z": "2 0,1"}]
    assert seen == [2]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ((1.0, 2.0), "a row has the columns z, but this emits 2 values"),
        ({"y": 1.0}, "a row has the columns z, but this emits y"),
        ("text", "output column 'z' is float, but the value is 'text'"),
    ],
)
def test_interpreted_kernels_are_held_to_their_shape(value, said) -> None:
    @hg.kernel(state={}, output={"z": float}, compiled=False)
    def wrong(state, row):
        return value

    with pytest.raises(errors.KernelFailed, match=said):
        hg.testing.run(wrong, [{"k": 1}])
